/* A correctness suite for any MPI library over any transport: named cases, each with an answer known beforehand.
 *
 *   suite --list
 *   suite CASE…|all [--quick|--full] [--seed S] [--deadline SECONDS] [--threads] [--spoil] [--without CASE]…
 *
 * Made by: mpicc -std=gnu11 -O1 -o suite -pthread and all files of tests/mpi/suite that end in .c
 *
 * With 1 to 8 ranks (more work, too). Rank 0 prints a line for each case, in the form of the Test Anything Protocol, and
 * the first thing that each rank found wrong. The exit code is 0 only if no case failed. A case that takes longer than
 * its deadline ends the program with the place at which each late rank was.
 *
 * --threads asks for MPI_THREAD_MULTIPLE; the case "threads" is left out where it is not granted.
 * --spoil flips a bit in whatever arrived before it is looked at: then every case must fail, which proves that it looks.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "verdict.h"

enum { MOST_CASES = 128, MOST_WITHOUT = 32 };

static const struct test_case *const groups[] = {basic_cases, match_cases, modes_cases, many_cases,
                                                 move_cases,  reduce_cases, comms_cases, types_cases,
                                                 mixed_cases, threads_cases, window_cases};
static const char *case_name = "start";
static const char *without[MOST_WITHOUT];
static size_t without_count;
static bool want_threads;

static void too_late(int number)
{
    char text[300];
    (void)number;
    int length = snprintf(text, sizeof text, "# rank %d: case %s still not over after %u s, last mark %s:%d\n", rank,
                          case_name, setting.deadline, verdict.file ? verdict.file : "none", verdict.line);
    if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0)
        _exit(5);
    /* The other late ranks want to say where they are, too, before the launcher ends them all. */
    sleep(1);
    _exit(4);
}

static void broken(MPI_Comm *comm, int *code, ...)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)comm;
    MPI_Error_string(*code, text, &length);
    fprintf(stderr, "# rank %d: MPI itself failed in case %s, last mark %s:%d: %s\n", rank, case_name,
            verdict.file ? verdict.file : "none", verdict.line, text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Rank 0 prints what all ranks found; returns whether the case failed on any of them. */
static bool tell(int number, const char *name, double seconds)
{
    int failed = 0, any_wrong = verdict.wrong > 0;
    MPI_Allreduce(&any_wrong, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    char *messages = malloc((size_t)size * sizeof verdict.message);
    if (!messages)
        abort();
    MPI_Gather(verdict.message, sizeof verdict.message, MPI_CHAR, messages, sizeof verdict.message, MPI_CHAR, 0,
               MPI_COMM_WORLD);
    if (rank == 0 && verdict.skipped && !failed)
        printf("ok %d - %s # SKIP %s\n", number, name, verdict.skipped);
    else if (rank == 0)
        printf("%s %d - %s # %.3f s\n", failed ? "not ok" : "ok", number, name, seconds);
    for (int r = 0; rank == 0 && r < size; r++)
        if (messages[(size_t)r * sizeof verdict.message])
            printf("# rank %d: %s\n", r, messages + (size_t)r * sizeof verdict.message);
    fflush(stdout);
    free(messages);
    return failed > 0;
}

static bool run_case(int number, const struct test_case *one)
{
    memset(&verdict, 0, sizeof verdict);
    case_name = one->name;
    alarm(setting.deadline);
    double begun = MPI_Wtime();
    if (size < one->least_ranks)
        skip("needs more ranks");
    else
        one->run();
    double seconds = MPI_Wtime() - begun;
    bool failed = tell(number, one->name, seconds);
    alarm(0);
    return failed;
}

static bool is_among(const char *name, char *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

/* The cases that the command line names; NULL and a message where one does not exist. */
static size_t chosen(char *const *names, int count, const struct test_case **list)
{
    size_t found = 0;
    int known = is_among("all", names, count);
    bool all = known > 0;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const struct test_case *one = groups[g]; one->name; one++) {
            bool named = is_among(one->name, names, count);
            known += named;
            if ((all || named) && !is_among(one->name, (char *const *)without, (int)without_count))
                list[found++] = one;
        }
    if (known < count && rank == 0)
        fprintf(stderr, "suite: %d of the %d names are no case; suite --list names them all\n", count - known, count);
    return known < count ? 0 : found;
}

static int run_all(char *const *names, int count)
{
    const struct test_case *list[MOST_CASES];
    size_t found = chosen(names, count, list);
    int failed = 0;
    if (found == 0)
        return 2;
    if (rank == 0)
        printf("1..%zu\n", found);
    for (size_t i = 0; i < found; i++)
        failed += run_case((int)i + 1, list[i]);
    if (rank == 0)
        printf("# %d ranks, seed %llu: %d of %zu cases failed\n", size, (unsigned long long)setting.seed, failed, found);
    return failed > 0;
}

static int list_cases(void)
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const struct test_case *one = groups[g]; one->name; one++)
            printf("%s\n", one->name);
    return 0;
}

static bool read_options(int count, char **words, bool *list)
{
    static const struct option options[] = {
        {"list", no_argument, NULL, 'l'},        {"quick", no_argument, NULL, 'q'},
        {"full", no_argument, NULL, 'f'},        {"seed", required_argument, NULL, 's'},
        {"spoil", no_argument, NULL, 'b'},       {"deadline", required_argument, NULL, 'd'},
        {"threads", no_argument, NULL, 't'},     {"without", required_argument, NULL, 'w'},
        {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(count, words, "", options, NULL)) != -1;)
        switch (option) {
        case 'l': *list = true; break;
        case 'q': setting.full = false; break;
        case 'f': setting.full = true; break;
        case 's': setting.seed = strtoull(optarg, NULL, 0); break;
        case 'b': setting.spoil = true; break;
        case 'd': setting.deadline = (unsigned)strtoul(optarg, NULL, 0); break;
        case 't': want_threads = true; break;
        case 'w':
            if (without_count < MOST_WITHOUT)
                without[without_count++] = optarg;
            break;
        default: return false;
        }
    return *list || optind < count;
}

static void start_mpi(int *count, char ***words)
{
    MPI_Errhandler handler;
    int provided;
    MPI_Init_thread(count, words, want_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_create_errhandler(broken, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
}

int main(int count, char **words)
{
    bool list = false;
    if (!read_options(count, words, &list)) {
        fprintf(stderr, "usage: suite --list | CASE…|all [--quick|--full] [--seed S] [--deadline SECONDS] [--threads] "
                        "[--spoil] [--without CASE]…\n");
        return 2;
    }
    if (list)
        return list_cases();
    struct sigaction late = {.sa_handler = too_late};
    sigaction(SIGALRM, &late, NULL);
    alarm(setting.deadline);
    start_mpi(&count, &words);
    int code = run_all(words + optind, count - optind);
    alarm(setting.deadline);
    case_name = "end";
    MPI_Comm_free(&world);
    MPI_Finalize();
    return code;
}
