/* What the tests of `bulkhead mpirun` run: the first word names calls of MPI that not every carrier has, with commas between
 * them, the second one the level of threads, for `file` the file. What came of them is said, and is wrong if MPI did not do it. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NUMBERS = 1000 };

static int rank, size, level;
static const char *what;

/* A number goes to the other side's first rank and comes back as its successor. */
static int successor(MPI_Comm others, int number) {
    int got = -1;
    MPI_Sendrecv(&number, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, others, MPI_STATUS_IGNORE);
    return got;
}

static void answer(MPI_Comm others) {
    int number = -1;
    MPI_Recv(&number, 1, MPI_INT, 0, 1, others, MPI_STATUS_IGNORE);
    number++;
    MPI_Send(&number, 1, MPI_INT, 0, 1, others);
}

static void spawn(char *program) {
    MPI_Comm children;
    int errors[2] = {-1, -1}, many = 0;
    MPI_Comm_spawn(program, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, errors);
    MPI_Comm_remote_size(children, &many);
    if (rank == 0) printf("2 children: %d %d %d, and 41 gives %d\n", many, errors[0], errors[1], successor(children, 41));
    MPI_Comm_disconnect(&children);
}

static void spawn_multiple(char *program) {
    MPI_Comm children;
    char *programs[] = {program, program};
    const int counts[] = {1, 1};
    const MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    int many = 0;
    MPI_Comm_spawn_multiple(2, programs, MPI_ARGVS_NULL, counts, infos, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(children, &many);
    if (rank == 0) printf("2 programs: %d, and 41 gives %d\n", many, successor(children, 41));
    MPI_Comm_disconnect(&children);
}

/* Each rank puts its number into the next one's memory. */
static void put(MPI_Win window, const int *got, MPI_Aint at) {
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, at, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    printf("%s: rank %d was given %d at level %d\n", what, rank, *got, level);
    MPI_Win_free(&window);
}

static void window(void) {
    int got = -1;
    MPI_Win window;
    MPI_Win_create(&got, sizeof got, sizeof got, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    put(window, &got, 0);
}

static void memory(void) {
    int *got = NULL;
    MPI_Win window;
    MPI_Win_allocate(sizeof *got, sizeof *got, MPI_INFO_NULL, MPI_COMM_WORLD, &got, &window);
    put(window, got, 0);
}

static void dynamic(void) {
    int got = -1;
    MPI_Win window;
    MPI_Aint here, *all = malloc(size * sizeof *all);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_attach(window, &got, sizeof got);
    MPI_Get_address(&got, &here);
    MPI_Allgather(&here, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    put(window, &got, all[(rank + 1) % size]);
    free(all);
}

static void shared(MPI_Comm ranks) {
    int *got = NULL;
    MPI_Win window;
    MPI_Win_allocate_shared(sizeof *got, sizeof *got, MPI_INFO_NULL, ranks, &got, &window);
    MPI_Comm_rank(ranks, &rank);
    MPI_Comm_size(ranks, &size);
    put(window, got, 0);
}

/* The last rank connects to the first one. */
static void connect_to(void) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other;
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, sizeof port, MPI_CHAR, size - 1, 0, MPI_COMM_WORLD);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        MPI_Close_port(port);
        answer(other);
        MPI_Comm_disconnect(&other);
    } else if (rank == size - 1) {
        MPI_Recv(port, sizeof port, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        printf("connected, and 41 gives %d\n", successor(other, 41));
        MPI_Comm_disconnect(&other);
    }
}

/* A port that nobody has opened. */
static void connect_nowhere(void) {
    MPI_Comm other;
    MPI_Comm_connect("no port", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
}

static void lookup(const char *service) {
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(service, MPI_INFO_NULL, port);
    }
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == size - 1) {
        MPI_Lookup_name(service, MPI_INFO_NULL, found);
        printf("looked up: %s\n", strcmp(port, found) == 0 ? "what was published" : found);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_Unpublish_name(service, MPI_INFO_NULL, port);
}

static void die(const char *what) {
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

/* The address of this partition's card. */
static struct in_addr own_address(void) {
    struct ifaddrs *all, *one;
    struct in_addr found = {htonl(INADDR_LOOPBACK)};
    if (getifaddrs(&all) != 0) die("getifaddrs");
    for (one = all; one != NULL; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET) continue;
        struct in_addr address = ((struct sockaddr_in *)one->ifa_addr)->sin_addr;
        if (ntohl(address.s_addr) >> 24 != 127) found = address;
    }
    freeifaddrs(all);
    return found;
}

static void join(void) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t length = sizeof at;
    MPI_Comm other;
    int wire = socket(AF_INET, SOCK_STREAM, 0);
    if (rank == 0) {
        at.sin_addr = own_address();
        if (bind(wire, (struct sockaddr *)&at, sizeof at) != 0 || listen(wire, 1) != 0) die("listen");
        if (getsockname(wire, (struct sockaddr *)&at, &length) != 0) die("getsockname");
        MPI_Send(&at, sizeof at, MPI_BYTE, size - 1, 0, MPI_COMM_WORLD);
        int caller = accept(wire, NULL, NULL);
        if (caller < 0) die("accept");
        MPI_Comm_join(caller, &other);
        answer(other);
        MPI_Comm_disconnect(&other);
    } else if (rank == size - 1) {
        MPI_Recv(&at, sizeof at, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (connect(wire, (struct sockaddr *)&at, sizeof at) != 0) die("connect");
        MPI_Comm_join(wire, &other);
        printf("joined, and 41 gives %d\n", successor(other, 41));
        MPI_Comm_disconnect(&other);
    }
}

/* Interleaved numbers written and read together, then one of each rank in order, one of each in any order, one of each at
 * its own place. The test looks into the file. */
static void file(const char *path) {
    MPI_File file;
    MPI_Datatype every;
    int mine[NUMBERS], got[NUMBERS], next = (rank + 1) % size, wrong = 0;
    const MPI_Offset interleaved = (MPI_Offset)NUMBERS * size * sizeof(int);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int i = 0; i < NUMBERS; i++) mine[i] = rank * NUMBERS + i;
    MPI_Type_vector(NUMBERS, 1, size, MPI_INT, &every);
    MPI_Type_commit(&every);
    MPI_File_set_view(file, rank * sizeof(int), MPI_INT, every, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, mine, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_set_view(file, next * sizeof(int), MPI_INT, every, "native", MPI_INFO_NULL);
    MPI_File_read_all(file, got, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < NUMBERS; i++) wrong += got[i] != next * NUMBERS + i;
    MPI_File_set_view(file, interleaved, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_write_ordered(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_shared(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_at(file, 2 * size + rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    printf("rank %d read %d wrong numbers\n", rank, wrong);
    MPI_Type_free(&every);
}

/* Within the partition: ranks of others have none of this memory. */
static void shared_here(void) {
    MPI_Comm here;
    const int all_rank = rank, all_size = size;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    shared(here);
    MPI_Comm_free(&here);
    rank = all_rank, size = all_size;
}

static void run(char *program, const char *word) {
    if (strcmp(what, "spawn") == 0) spawn(program);
    else if (strcmp(what, "spawn_nothing") == 0) spawn("/no/such/program");
    else if (strcmp(what, "spawn_multiple") == 0) spawn_multiple(program);
    else if (strcmp(what, "window") == 0) window();
    else if (strcmp(what, "memory") == 0) memory();
    else if (strcmp(what, "dynamic") == 0) dynamic();
    else if (strcmp(what, "shared") == 0) shared(MPI_COMM_WORLD);
    else if (strcmp(what, "shared_here") == 0) shared_here();
    else if (strcmp(what, "connect") == 0) connect_to();
    else if (strcmp(what, "connect_nowhere") == 0) connect_nowhere();
    else if (strcmp(what, "lookup") == 0) lookup("bulkhead-test");
    else if (strcmp(what, "join") == 0) join();
    else if (strcmp(what, "file") == 0) file(word);
    else MPI_Abort(MPI_COMM_WORLD, 9);
}

int main(int argc, char **argv) {
    char *all = argc > 1 ? argv[1] : "", *word = argc > 2 ? argv[2] : "";
    const int wanted = strcmp(word, "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
    MPI_Comm parent;
    MPI_Init_thread(&argc, &argv, wanted, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        if (rank == 0) answer(parent);
        MPI_Comm_disconnect(&parent);
    } else {
        for (what = strtok(all, ","); what != NULL; what = strtok(NULL, ",")) run(argv[0], word);
    }
    MPI_Finalize();
    return 0;
}
