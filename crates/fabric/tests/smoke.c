/* What every MPI program needs: a ping-pong of all sizes, a ring, an allreduce, a message to oneself. Exit code 0 if all
 * that came was right. With an argument, rank 1 dies in the middle. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void fail(const char *what, long number)
{
    fprintf(stderr, "wrong: %s %ld\n", what, number);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char byte_of(size_t at, int seed)
{
    return (unsigned char)(at * 7 + at / 251 + (size_t)seed * 31);
}

int main(int argc, char **argv)
{
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    static unsigned char out[3 << 20], in[3 << 20];
    for (size_t length = 0; length <= sizeof out; length = length * 3 + 1) {
        int next = (rank + 1) % size, before = (rank + size - 1) % size;
        for (size_t i = 0; i < length; i++)
            out[i] = byte_of(i, rank);
        MPI_Status status;
        MPI_Sendrecv(out, (int)length, MPI_BYTE, next, 3, in, sizeof in, MPI_BYTE, before, 3, MPI_COMM_WORLD, &status);
        for (size_t i = 0; i < length; i++)
            if (in[i] != byte_of(i, before))
                fail("byte", (long)i);
        if (argc > 1 && rank == 1 && length > 100000)
            raise(SIGKILL);
        if (rank < size / 2 * 2) {
            int peer = rank ^ 1;
            for (int i = 0; i < 100; i++) {
                int number = -1;
                if (rank & 1)
                    MPI_Recv(&number, 1, MPI_INT, peer, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (!(rank & 1) || number == i)
                    MPI_Send(&i, 1, MPI_INT, peer, i, MPI_COMM_WORLD);
                if (!(rank & 1))
                    MPI_Recv(&number, 1, MPI_INT, peer, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (number != i)
                    fail("number", number);
            }
        }
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2)
        fail("sum", sum);
    MPI_Finalize();
    if (rank == 0)
        puts("all right");
    return 0;
}
