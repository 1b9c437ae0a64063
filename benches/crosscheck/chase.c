/* A pointer chase as simple as it can be: the reference that the memory latency probe is compared with.
 *
 *   chase SECONDS BYTES [BYTES...]      prints "BYTES NANOSECONDS" per size
 *
 * One random cycle (Sattolo 1986) through the cache lines of the array, whose memory is advised to be on huge pages, as the
 * probe's is. Twice around to warm up, then the median of eight laps.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { LINE = 64, HUGE = 2 << 20, LAPS = 8, LOADS = 1024 };

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *volatile sink;

static void **follow(void **p)
{
    for (int i = 0; i < LOADS; i++)
        p = *p;
    return p;
}

static double chase(size_t bytes, double seconds)
{
    size_t lines = bytes / LINE, room = (bytes + HUGE - 1) / HUGE * HUGE;
    char *memory = aligned_alloc(HUGE, room);
    size_t *order = malloc(lines * sizeof *order);
    double laps[LAPS];
    if (!memory || !order || lines < 2)
        exit(2);
    madvise(memory, room, MADV_HUGEPAGE);
    for (size_t i = 0; i < lines; i++)
        order[i] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t j = next_random() % i, kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (size_t i = 0; i < lines; i++)
        *(void **)(memory + order[i] * LINE) = memory + order[(i + 1) % lines] * LINE;
    free(order);
    void **p = (void **)memory;
    for (size_t i = 0; i < 2 * lines; i += LOADS)
        p = follow(p);
    for (int lap = 0; lap < LAPS; lap++) {
        double begin = now(), took;
        uint64_t loads = 0;
        do {
            p = follow(p);
            loads += LOADS;
            took = now() - begin;
        } while (took < seconds / LAPS);
        laps[lap] = took / (double)loads;
    }
    sink = p;
    free(memory);
    qsort(laps, LAPS, sizeof *laps, by_size);
    return (laps[LAPS / 2 - 1] + laps[LAPS / 2]) / 2 * 1e9;
}

int main(int count, char **words)
{
    if (count < 3)
        return 2;
    for (int i = 2; i < count; i++) {
        size_t bytes = strtoull(words[i], NULL, 10);
        printf("%zu %.4f\n", bytes, chase(bytes, atof(words[1])));
    }
    return 0;
}
