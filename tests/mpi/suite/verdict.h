/* What one rank has seen in one case; between the fixture that writes it and the program that gathers it. */
#ifndef BULKHEAD_MPI_VERDICT_H
#define BULKHEAD_MPI_VERDICT_H

struct verdict {
    int wrong;           /* checks that failed */
    char message[400];   /* what the first of them said */
    const char *skipped; /* why the case was left out */
    const char *file;    /* last mark */
    int line;
};

extern struct verdict verdict;

#endif
