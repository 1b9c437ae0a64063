/* How fast two ranks talk: half round trips with their distribution, and the bandwidth of a stream.
 *
 *   pingpong [--sizes B,B,…] [--seconds S] [--samples N] [--window N] [--only latency|bandwidth] [--dump]
 *
 * Made by: mpicc -std=gnu11 -O2 -o pingpong tests/mpi/pingpong.c
 *
 * Rank 0 prints a JSON line for each size and measurement; --dump adds all samples. Each size takes about --seconds, and at least 20 rounds.
 * Latency: one message there and back, the clock read once each time round, halved. Bandwidth: --window messages under
 * way at once, each from and to memory of its own (fewer of them above 1 MiB), and one answer to each window. The last
 * message of each size is looked at.
 */
#include <getopt.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_SIZES = 64, WARM_UP = 20, LEAST_ROUNDS = 20, WINDOW_BYTES = 64 << 20, TAG = 1 };

struct plan {
    long sizes[MOST_SIZES];
    int size_count, window;
    long samples;
    double seconds;
    bool latency, bandwidth, dump;
};

static int rank, peer;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "pingpong: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 3);
    abort();
}

static char *memory_of(size_t bytes, int content)
{
    char *memory = malloc(bytes);
    if (!memory)
        fail("not enough memory");
    memset(memory, content, bytes);
    return memory;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void there_and_back(char *out, char *in, int bytes)
{
    if (rank == 0)
        MPI_Send(out, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
    MPI_Recv(in, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Send(out, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
}

/* Whether the first byte of a message says that others follow it. Rank 0 decides, as long as there is time. */
enum { MORE = 77, LAST = 78 };

static char next_word(const struct plan *plan, double begun, long done, long most)
{
    bool time_left = now_ns() - begun < plan->seconds * 1e9 || done < LEAST_ROUNDS;
    return time_left && done + 1 < most ? MORE : LAST;
}

static void print_latency(const struct plan *plan, long bytes, double *samples, long count)
{
    if (plan->dump) {
        printf("{\"what\":\"samples\",\"bytes\":%ld,\"half_round_trip_ns\":[", bytes);
        for (long i = 0; i < count; i++)
            printf("%s%.0f", i ? "," : "", samples[i]);
        printf("]}\n");
    }
    qsort(samples, (size_t)count, sizeof *samples, by_size);
    printf("{\"what\":\"latency\",\"bytes\":%ld,\"samples\":%ld,\"min_ns\":%.0f,\"p50_ns\":%.0f,\"p90_ns\":%.0f,"
           "\"p99_ns\":%.0f,\"p99_9_ns\":%.0f,\"max_ns\":%.0f}\n",
           bytes, count, samples[0], samples[(count - 1) / 2], samples[(count - 1) * 9 / 10],
           samples[(count - 1) * 99 / 100], samples[(count - 1) * 999 / 1000], samples[count - 1]);
    fflush(stdout);
}

static void measure_latency(const struct plan *plan, long bytes)
{
    char *out = memory_of((size_t)bytes, 10 + rank), *in = memory_of((size_t)bytes, 0), word = MORE;
    double *samples = malloc((size_t)plan->samples * sizeof *samples);
    if (!samples)
        fail("not enough memory for the samples");
    for (int i = 0; i < WARM_UP; i++)
        there_and_back(out, in, (int)bytes);
    double begun = now_ns(), last = begun;
    long rounds = 0;
    for (; word == MORE; rounds++) {
        out[0] = word = next_word(plan, begun, rounds, plan->samples);
        there_and_back(out, in, (int)bytes);
        if (rank == 1)
            word = in[0];
        double now = now_ns();
        samples[rounds] = (now - last) / 2;
        last = now;
    }
    if (bytes > 1 && in[bytes - 1] != 10 + peer)
        fail("a message came differently");
    if (rank == 0)
        print_latency(plan, bytes, samples, rounds);
    free(samples);
    free(in);
    free(out);
}

/* One window of messages from rank 0, and the answer that all have come. */
static void one_window(char *memory, int bytes, int window, MPI_Request *requests)
{
    char answer = 0;
    for (int i = 0; i < window; i++) {
        char *at = memory + (size_t)i * (size_t)bytes;
        if (rank == 0)
            MPI_Isend(at, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Irecv(at, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        MPI_Recv(&answer, 1, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(&answer, 1, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
}

static void measure_bandwidth(const struct plan *plan, long bytes)
{
    int window = plan->window;
    if ((long)window * bytes > WINDOW_BYTES)
        window = (int)(WINDOW_BYTES / bytes) > 0 ? (int)(WINDOW_BYTES / bytes) : 1;
    size_t all = (size_t)window * (size_t)bytes;
    char *memory = memory_of(all, rank == 0 ? MORE : 0), word = MORE;
    MPI_Request *requests = malloc((size_t)window * sizeof(MPI_Request));
    if (!requests)
        fail("not enough memory for the requests");
    one_window(memory, (int)bytes, window, requests);
    double begun = now_ns();
    long rounds = 0;
    for (; word == MORE; rounds++) {
        if (rank == 0)
            memory[0] = word = next_word(plan, begun, rounds, LONG_MAX);
        one_window(memory, (int)bytes, window, requests);
        word = memory[0];
    }
    double seconds = (now_ns() - begun) / 1e9;
    if (memory[0] != LAST || (all > 1 && memory[all - 1] != MORE))
        fail("a message came differently");
    if (rank == 0)
        printf("{\"what\":\"bandwidth\",\"bytes\":%ld,\"window\":%d,\"windows\":%ld,\"bytes_per_s\":%.0f}\n", bytes, window,
               rounds, (double)rounds * (double)all / seconds);
    fflush(stdout);
    free(requests);
    free(memory);
}

static bool read_sizes(struct plan *plan, char *text)
{
    plan->size_count = 0;
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        long bytes = strtol(word, NULL, 10);
        if (bytes < 1 || bytes > 1 << 30 || plan->size_count == MOST_SIZES)
            return false;
        plan->sizes[plan->size_count++] = bytes;
    }
    return plan->size_count > 0;
}

static bool read_options(int count, char **words, struct plan *plan)
{
    static const struct option options[] = {
        {"sizes", required_argument, NULL, 's'},  {"seconds", required_argument, NULL, 't'},
        {"samples", required_argument, NULL, 'n'}, {"window", required_argument, NULL, 'w'},
        {"only", required_argument, NULL, 'o'},   {"dump", no_argument, NULL, 'd'},
        {NULL, 0, NULL, 0}};
    bool right = true;
    for (int option; (option = getopt_long(count, words, "", options, NULL)) != -1;)
        switch (option) {
        case 's': right &= read_sizes(plan, optarg); break;
        case 't': plan->seconds = strtod(optarg, NULL); break;
        case 'n': plan->samples = strtol(optarg, NULL, 10); break;
        case 'w': plan->window = (int)strtol(optarg, NULL, 10); break;
        case 'o':
            plan->latency = strcmp(optarg, "latency") == 0;
            plan->bandwidth = strcmp(optarg, "bandwidth") == 0;
            break;
        case 'd': plan->dump = true; break;
        default: right = false;
        }
    return right && optind == count && plan->window > 0 && plan->seconds > 0 && plan->samples > 0 &&
           (plan->latency || plan->bandwidth);
}

static void measure(const struct plan *plan)
{
    for (int i = 0; i < plan->size_count; i++) {
        if (plan->latency)
            measure_latency(plan, plan->sizes[i]);
        if (plan->bandwidth)
            measure_bandwidth(plan, plan->sizes[i]);
    }
}

int main(int count, char **words)
{
    struct plan plan = {.window = 64, .samples = 100000, .seconds = 0.2, .latency = true, .bandwidth = true};
    int size;
    for (long bytes = 1; bytes <= 8 << 20; bytes *= 2)
        plan.sizes[plan.size_count++] = bytes;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    peer = rank ^ 1;
    if (!read_options(count, words, &plan) || size != 2) {
        if (rank == 0)
            fprintf(stderr, "usage: pingpong [--sizes B,B,…] [--seconds S] [--samples N] [--window N] [--only "
                            "latency|bandwidth] [--dump], with 2 ranks\n");
        MPI_Finalize();
        return 2;
    }
    measure(&plan);
    MPI_Finalize();
    return 0;
}
