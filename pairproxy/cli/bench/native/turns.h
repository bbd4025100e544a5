/* Who sends next: a heap of those who wait for their time, and a list of those who send as fast as they can. */

struct turn {
  uint64_t due_ns;
  int place; /* in the heap; -1: not there */
  bool is_ready;
  struct turn *next_ready;
};

static struct turn **heap;
static int heap_count, heap_room;
static struct turn *first_ready, *last_ready;

static void swap_places(int one, int other) {
  struct turn *moved = heap[one];
  heap[one] = heap[other];
  heap[other] = moved;
  heap[one]->place = one;
  heap[other]->place = other;
}

static void rise(int place) {
  while (place > 0 && heap[(place - 1) / 2]->due_ns > heap[place]->due_ns) {
    swap_places(place, (place - 1) / 2);
    place = (place - 1) / 2;
  }
}

static void sink(int place) {
  for (;;) {
    int least = place;
    for (int child = 2 * place + 1; child <= 2 * place + 2; child++)
      if (child < heap_count && heap[child]->due_ns < heap[least]->due_ns)
        least = child;
    if (least == place)
      return;
    swap_places(place, least);
    place = least;
  }
}

static void wait_for_time(struct turn *one) {
  if (heap_count == heap_room) {
    heap_room = heap_room ? heap_room * 2 : 1024;
    heap = grown(heap, (size_t)heap_room * sizeof *heap);
  }
  heap[heap_count] = one;
  one->place = heap_count;
  rise(heap_count++);
}

static void wait_no_more(struct turn *one) {
  int place = one->place;
  if (place < 0)
    return;
  one->place = -1;
  if (place == --heap_count)
    return;
  heap[place] = heap[heap_count];
  heap[place]->place = place;
  rise(place);
  sink(heap[place]->place);
}

static void make_ready(struct turn *one) {
  if (one->is_ready)
    return;
  one->is_ready = true;
  one->next_ready = NULL;
  if (last_ready)
    last_ready->next_ready = one;
  else
    first_ready = one;
  last_ready = one;
}

static void unready(struct turn *one) {
  struct turn *before = NULL, *other = first_ready;
  if (!one->is_ready)
    return;
  while (other != one) {
    before = other;
    other = other->next_ready;
  }
  if (before)
    before->next_ready = one->next_ready;
  else
    first_ready = one->next_ready;
  if (last_ready == one)
    last_ready = before;
  one->is_ready = false;
}
