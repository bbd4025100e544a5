"""The ports of a daemon. A front is the client port that stands for the engines of one kind.

ports    all of them: bound, opened, told of, and what a person wants of them (POST /ports)
stand    the port of a front: had, given up, who has it
waiting  requests that wait for an engine that is just moving
front    one client port: it opens, closes, waits for its engine, and gives way to it
opening  when a front is open: while any node could serve
telling  what is said of a front: who has its port, and what to do
"""
