/* Random mixtures of everything between two ranks, drawn by all of them from one seed, so that each knows what must come.
 *
 * In each round, messages of random length go from random ranks to random ranks on random communicators, by random kinds
 * of send. Each receiver takes a round's messages in one of three ways: by name in a random order, by tag, or as they
 * come; some after a probe, some posted before, some after. Each message carries its number, and from that follows the
 * rest of it. Held against the drawn list: each message comes once, whole, from whom it should, and messages that
 * the same receive could have got come in the order in which they were sent.
 */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

enum { COMMS = 2, TAGS = 4, BY_NAME = 0, BY_TAG = 1, AS_THEY_COME = 2 };

struct message {
    int from, to, tag, comm, send_kind;
    size_t bytes;
    int came; /* how often */
};

struct receive {
    MPI_Request request;
    char *memory;
    int from, tag; /* what was asked for */
    int comm;
};

struct round {
    struct message *messages;
    int count, way[COMMS];
    uint64_t number;
    size_t longest;
    MPI_Comm comms[COMMS];
};

static size_t draw_length(uint64_t *state)
{
    static const uint64_t limits[] = {8, 64, 1024, 9000, 70000, 600000};
    return 8 + below(state, limits[below(state, setting.full || below(state, 8) == 0 ? 6 : 4)]);
}

static void draw(struct round *round)
{
    uint64_t state = key_of('m', 'i', 'x', round->number);
    round->longest = 0;
    for (int i = 0; i < round->count; i++) {
        struct message *m = &round->messages[i];
        *m = (struct message){.from = (int)below(&state, (uint64_t)size),
                              .to = (int)below(&state, (uint64_t)size),
                              .tag = (int)below(&state, TAGS),
                              .comm = (int)below(&state, COMMS),
                              .send_kind = (int)below(&state, 5),
                              .bytes = draw_length(&state)};
        if (m->bytes > round->longest)
            round->longest = m->bytes;
    }
    for (int comm = 0; comm < COMMS; comm++)
        for (int r = 0; r < size; r++) {
            int way = (int)below(&state, 3);
            if (r == rank)
                round->way[comm] = way;
        }
}

/* The content of a message: its number, then what follows from it. */
static void write_message(const struct round *round, int number, char *memory)
{
    uint64_t id = (uint64_t)number;
    fill(memory + 8, round->messages[number].bytes - 8, key_of('X', round->number, id, 0));
    memcpy(memory, &id, 8);
}

static MPI_Request send_one(const struct round *round, int number, char *memory)
{
    const struct message *m = &round->messages[number];
    MPI_Comm comm = round->comms[m->comm];
    MPI_Request request = MPI_REQUEST_NULL;
    write_message(round, number, memory);
    if (m->send_kind == 0 && round->number % 2 == 0)
        MPI_Issend(memory, (int)m->bytes, MPI_BYTE, m->to, m->tag, comm, &request);
    else
        MPI_Isend(memory, (int)m->bytes, MPI_BYTE, m->to, m->tag, comm, &request);
    return request;
}

/* Whether a receive that asks so could have got the message. */
static bool matches(const struct receive *receive, const struct message *m)
{
    return m->to == rank && m->comm == receive->comm && (receive->from == MPI_ANY_SOURCE || receive->from == m->from) &&
           (receive->tag == MPI_ANY_TAG || receive->tag == m->tag);
}

/* Looks at what came: which message it is, whether it could come here, and whether none was sent before it in vain. */
static void look(struct round *round, struct receive *receive, const MPI_Status *status)
{
    uint64_t id = UINT64_MAX;
    memcpy(&id, receive->memory, 8);
    if (!CHECK(id < (uint64_t)round->count, "round %llu: a message without a number came",
               (unsigned long long)round->number))
        return;
    struct message *m = &round->messages[id];
    CHECK(matches(receive, m), "round %llu: message %llu from %d for %d came to a receive from %d of tag %d",
          (unsigned long long)round->number, (unsigned long long)id, m->from, m->to, receive->from, receive->tag);
    CHECK_STATUS(status, m->from, m->tag, (long long)m->bytes);
    CHECK_IS(receive->memory + 8, m->bytes - 8, key_of('X', round->number, id, 0), "round %llu: message %llu differs",
             (unsigned long long)round->number, (unsigned long long)id);
    CHECK(m->came++ == 0, "round %llu: message %llu came twice", (unsigned long long)round->number,
          (unsigned long long)id);
    for (uint64_t before = 0; before < id; before++) {
        const struct message *other = &round->messages[before];
        CHECK(other->came || other->from != m->from || !matches(receive, other),
              "round %llu: message %llu overtook message %llu", (unsigned long long)round->number,
              (unsigned long long)id, (unsigned long long)before);
    }
}

/* What each of our receives asks for, in a random order. */
static int plan(const struct round *round, struct receive *receives)
{
    int count = 0;
    uint64_t state = key_of('p', 'l', (uint64_t)rank, round->number);
    for (int i = 0; i < round->count; i++) {
        const struct message *m = &round->messages[i];
        if (m->to != rank)
            continue;
        int way = round->way[m->comm];
        receives[count++] = (struct receive){.request = MPI_REQUEST_NULL,
                                             .memory = room(round->longest),
                                             .from = way == BY_NAME ? m->from : MPI_ANY_SOURCE,
                                             .tag = way == AS_THEY_COME ? MPI_ANY_TAG : m->tag,
                                             .comm = m->comm};
    }
    for (int i = count - 1; i > 0; i--) {
        int other = (int)below(&state, (uint64_t)i + 1);
        struct receive swap = receives[i];
        receives[i] = receives[other];
        receives[other] = swap;
    }
    return count;
}

/* Takes one message now: by a probe and what it found, or just so. (Synchronous sends and matched probes do not meet here:
 * see synchronous_mprobe.) */
static void take(struct round *round, struct receive *receive, bool probes)
{
    MPI_Comm comm = round->comms[receive->comm];
    MPI_Status status;
    MARK();
    if (probes && round->number % 2 == 0) {
        MPI_Probe(receive->from, receive->tag, comm, &status);
        MPI_Recv(receive->memory, (int)round->longest, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
    } else if (probes) {
        MPI_Message message;
        int bytes;
        MPI_Mprobe(receive->from, receive->tag, comm, &message, &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        CHECK((size_t)bytes <= round->longest, "a probe found %d bytes", bytes);
        MPI_Mrecv(receive->memory, bytes, MPI_BYTE, &message, &status);
    } else {
        MPI_Recv(receive->memory, (int)round->longest, MPI_BYTE, receive->from, receive->tag, comm, &status);
    }
    look(round, receive, &status);
}

static void post(const struct round *round, struct receive *receive)
{
    MPI_Irecv(receive->memory, (int)round->longest, MPI_BYTE, receive->from, receive->tag, round->comms[receive->comm],
              &receive->request);
}

/* The first half of the receives is posted before anything is sent, the other taken one by one afterwards. */
static void run_round(struct round *round)
{
    struct receive *receives = malloc((size_t)round->count * sizeof *receives);
    MPI_Request *sends = malloc((size_t)round->count * sizeof *sends);
    char **memory = calloc((size_t)round->count, sizeof *memory);
    int count = plan(round, receives), sent = 0, posted = count / 2;
    for (int i = 0; i < posted; i++)
        post(round, &receives[i]);
    for (int i = 0; i < round->count; i++)
        if (round->messages[i].from == rank) {
            memory[sent] = room(round->messages[i].bytes);
            sends[sent] = send_one(round, i, memory[sent]);
            sent++;
        }
    MARK();
    for (int i = 0; i < posted; i++) {
        MPI_Status status;
        MPI_Wait(&receives[i].request, &status);
        look(round, &receives[i], &status);
    }
    for (int i = posted; i < count; i++)
        take(round, &receives[i], (round->number + (uint64_t)i) % 3 == 0);
    MARK();
    MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < sent; i++)
        leave(memory[i]);
    for (int i = 0; i < count; i++)
        leave(receives[i].memory);
    for (int i = 0; i < round->count; i++)
        CHECK(round->messages[i].came == (round->messages[i].to == rank), "round %llu: message %d came %d times",
              (unsigned long long)round->number, i, round->messages[i].came);
    free(memory);
    free(sends);
    free(receives);
}

static void mixed(void)
{
    int rounds = setting.full ? 400 : 16;
    struct round round = {.count = 12 * size + 40};
    round.messages = calloc((size_t)round.count, sizeof *round.messages);
    round.comms[0] = world;
    MPI_Comm_dup(world, &round.comms[1]);
    for (round.number = 0; round.number < (uint64_t)rounds; round.number++) {
        draw(&round);
        run_round(&round);
        /* The next round uses the same tags. */
        MPI_Barrier(world);
    }
    MPI_Comm_free(&round.comms[1]);
    free(round.messages);
}

const struct test_case mixed_cases[] = {{"mixed", 1, mixed}, {0}};
