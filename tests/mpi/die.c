/* A rank that ends in the middle of something, while all others wait for it: the launcher has to end them.
 *
 *   die message|collective|unexpected|before|exit|abort
 *
 * Made by: mpicc -std=gnu11 -O1 -o die tests/mpi/die.c
 *
 * message: the last rank is killed (SIGKILL) in the middle of a long message to rank 0; collective: in the middle of a
 * series of collectives; unexpected: after a flood of messages that nobody asked for; before: before it joins the others.
 * exit: it ends with code 7 without having taken its leave; abort: by MPI_Abort with code 9.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG_MESSAGE = 64 << 20, SHORT_MESSAGE = 1000, FLOOD = 5000 };

static int rank, size;

static void end_now(void)
{
    static const char text[] = "die: the last rank ends now\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(5);
    raise(SIGKILL);
}

static void in_a_message(void)
{
    char *memory = calloc(1, LONG_MESSAGE);
    MPI_Request request;
    int done = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        MPI_Isend(memory, LONG_MESSAGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 5; i++)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        end_now();
    }
    /* The second one never comes. */
    for (int i = 0; i < 2; i++)
        MPI_Recv(memory, LONG_MESSAGE, MPI_BYTE, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void in_collectives(void)
{
    int sum;
    for (int i = 0;; i++) {
        if (rank == size - 1 && i == 1000)
            end_now();
        MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void in_a_flood(void)
{
    static char memory[SHORT_MESSAGE];
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        for (int i = 0; i < FLOOD; i++)
            MPI_Isend(memory, SHORT_MESSAGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
        end_now();
    }
    MPI_Recv(memory, SHORT_MESSAGE, MPI_BYTE, size - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void meet(void)
{
    for (;;)
        MPI_Barrier(MPI_COMM_WORLD);
}

int main(int count, char **words)
{
    const char *how = count == 2 ? words[1] : "";
    const char *place = getenv("OMPI_COMM_WORLD_RANK"), *all = getenv("OMPI_COMM_WORLD_SIZE");
    if (strcmp(how, "before") == 0 && place && all && atoi(place) == atoi(all) - 1)
        end_now();
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(how, "message") == 0)
        in_a_message();
    else if (strcmp(how, "collective") == 0)
        in_collectives();
    else if (strcmp(how, "unexpected") == 0)
        in_a_flood();
    else if (strcmp(how, "exit") == 0 && rank == size - 1)
        exit(7);
    else if (strcmp(how, "abort") == 0 && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 9);
    else if (strcmp(how, "before") == 0 || strcmp(how, "exit") == 0 || strcmp(how, "abort") == 0)
        meet();
    if (rank == 0)
        fprintf(stderr, "usage: die message|collective|unexpected|before|exit|abort\n");
    MPI_Finalize();
    return 2;
}
