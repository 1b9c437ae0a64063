/* A rank sends and then waits for something that is not MPI's: a file, which the receiver makes when it has the message. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, number = 41;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == 0) {
        MPI_Send(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        while (access(argv[1], F_OK) != 0)
            usleep(1000);
        puts("all right");
    } else if (rank == 1) {
        MPI_Recv(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        close(open(argv[1], O_CREAT | O_WRONLY, 0600));
    }
    MPI_Finalize();
    return 0;
}
