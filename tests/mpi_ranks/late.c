/* Brings MPI when it runs, for itself alone, as interpreters do: `extension FILE WORDS…` runs the main function of a library
 * that needs MPI (Python's mpi4py is one), `by_name WHAT` looks MPI's functions up in its library (ctypes, Julia). */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static void *mpi;

static void *look_up(const char *name) {
    void *found = dlsym(mpi, name);
    if (found == NULL) fprintf(stderr, "%s\n", dlerror());
    return found;
}

#define CALL(name) ((__typeof__(&name))look_up(#name))

static int by_name(const char *what, char *program) {
    MPI_Comm world, children;
    MPI_Win window;
    char *again[] = {"by_name", "child", NULL};
    int level, got = -1;
    mpi = dlopen("libmpi.so.40", RTLD_NOW | RTLD_LOCAL);
    if (mpi == NULL) return fprintf(stderr, "%s\n", dlerror()), 9;
    world = look_up("ompi_mpi_comm_world");
    CALL(MPI_Init_thread)(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (strcmp(what, "spawn") == 0) {
        CALL(MPI_Comm_spawn)(program, again, 1, look_up("ompi_mpi_info_null"), 0, world, &children, NULL);
    } else if (strcmp(what, "window") == 0) {
        CALL(MPI_Win_create)(&got, sizeof got, sizeof got, look_up("ompi_mpi_info_null"), world, &window);
    }
    return CALL(MPI_Finalize)();
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "by_name") == 0) return by_name(argv[2], argv[0]);
    if (argc < 3 || strcmp(argv[1], "extension") != 0) return 9;
    void *extension = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (extension == NULL) return fprintf(stderr, "%s\n", dlerror()), 9;
    int (*run)(int, char **) = (int (*)(int, char **))dlsym(extension, "main");
    return run == NULL ? 9 : run(argc - 2, argv + 2);
}
