/* Times counted in buckets of equal relative width: 64 to each power of two, so a percentile is right to 1 %. */
#define BUCKETS 4096
#define PARTS 64     /* of each power of two */
#define PARTS_BITS 6 /* PARTS is 2 to this */

struct histogram {
  uint64_t counts[BUCKETS];
  uint64_t count;
};

static int bucket_of(uint64_t ns) {
  int power, bucket;
  if (ns < PARTS)
    return (int)ns;
  power = 63 - __builtin_clzll(ns);
  bucket = (power - PARTS_BITS + 1) * PARTS + (int)((ns >> (power - PARTS_BITS)) % PARTS);
  return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* The middle of a bucket, in nanoseconds. */
static uint64_t middle_of(int bucket) {
  int power = bucket / PARTS + PARTS_BITS - 1;
  uint64_t part = (uint64_t)(bucket % PARTS);
  if (bucket < PARTS)
    return (uint64_t)bucket;
  return (1ull << power) + (part << (power - PARTS_BITS)) + (1ull << (power - PARTS_BITS)) / 2;
}

static void count_time(struct histogram *times, uint64_t ns) {
  times->counts[bucket_of(ns)]++;
  times->count++;
}

/* The time that a `part` of all does not exceed, in microseconds; 0 if there is none. */
static double percentile_us(const struct histogram *times, double part) {
  uint64_t wanted = (uint64_t)(part * (double)times->count), seen = 0;
  for (int bucket = 0; bucket < BUCKETS && times->count; bucket++) {
    seen += times->counts[bucket];
    if (seen > wanted || seen == times->count)
      return (double)middle_of(bucket) / 1e3;
  }
  return 0.0;
}
