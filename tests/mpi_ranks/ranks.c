/* What the tests of `bulkhead mpirun` run: each rank says who it is, then does what the first word says. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, sum = 0, length = 0;
    char host[MPI_MAX_PROCESSOR_NAME];
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &length);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s, sum %d\n", rank, size, host, sum);
    fflush(stdout);
    if (strcmp(what, "read") == 0) {
        char line[100] = "";
        if (rank == 0 && fgets(line, sizeof line, stdin) == NULL) strcpy(line, "nothing\n");
        MPI_Bcast(line, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
        if (rank == size - 1) fprintf(stderr, "the last rank heard %s", line);
    }
    if (strcmp(what, "die") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == size - 1) raise(SIGKILL);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (strcmp(what, "wait") == 0) sleep(1000);
    MPI_Finalize();
    return strcmp(what, "code") == 0 && rank == size - 1 ? 7 : 0;
}
