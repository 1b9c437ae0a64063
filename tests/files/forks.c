/* Reads a file that is being written, again and again into one page, while another thread forks and a third one writes elsewhere in
   that page. What is read straight into the page (direct I/O) may reach the one that the fork has left to the child.
   Arguments: the file, how often. Says how often it read, and how often something else than what is there. */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORD = 64, RECORDS = 1000, ELSEWHERE = 4000 };

static volatile int is_over;
static volatile char *page;

static void *fork_on(void *nothing) {
    while (!is_over) {
        pid_t child = fork();
        if (child == 0) {
            usleep(3000);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    return nothing;
}

static void *touch_on(void *nothing) {
    while (!is_over)
        page[ELSEWHERE]++;
    return nothing;
}

static char content(long record) { return (char)(1 + record % 250); }

int main(int count, char **words) {
    if (count != 3)
        return 2;
    char record[RECORD];
    int writer = open(words[1], O_CREAT | O_TRUNC | O_WRONLY, 0644);
    for (long number = 0; number < RECORDS; number++) {
        memset(record, content(number), RECORD);
        if (write(writer, record, RECORD) != RECORD)
            return 3;
    }
    int reader = open(words[1], O_RDONLY);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t forks, touches;
    if (reader < 0 || page == MAP_FAILED || pthread_create(&forks, NULL, fork_on, NULL) ||
        pthread_create(&touches, NULL, touch_on, NULL))
        return 4;
    long reads = atol(words[2]), wrong = 0;
    for (long number = 0; number < reads; number++) {
        long at = number % RECORDS;
        memset((char *)page, 0xee, RECORD);
        ssize_t got = pread(reader, (char *)page, RECORD, at * RECORD);
        wrong += got != RECORD || page[0] != content(at) || page[RECORD - 1] != content(at);
    }
    is_over = 1;
    pthread_join(forks, NULL);
    pthread_join(touches, NULL);
    printf("%ld reads, %ld wrong\n", reads, wrong);
    return wrong != 0;
}
