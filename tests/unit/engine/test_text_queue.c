/* test_text_queue.c: whose turn it is among the texts of several users: a random run against the rule itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <base/rng.h>

#include "text/text_priv.h"

#define USERS 5
#define PLACES 40

/* The requests of each user in order of arrival, and who waits for longest. */
struct model {
    struct halo_text_place *places[USERS][PLACES];
    size_t n[USERS];
    uint64_t since[USERS], now;
};

static size_t find_next(const struct model *model, bool may_begin)
{
    size_t best = USERS;
    for (size_t u = 0; u < USERS; u++)
        if (model->n[u] > 0 && (may_begin || model->places[u][0]->worker) &&
            (best == USERS || model->since[u] < model->since[best]))
            best = u;
    return best;
}

static void forget(struct model *model, size_t user, size_t at)
{
    struct halo_text_place **places = model->places[user];
    memmove(places + at, places + at + 1, (--model->n[user] - at) * sizeof(*places));
}

static void check(const struct halo_text_queue *queue, const struct model *model, bool may_begin)
{
    size_t user = find_next(model, may_begin);
    assert_ptr_equal(halo_text_queue_next(queue, may_begin), user == USERS ? NULL : model->places[user][0]);
}

static void users_come_in_turn(void **state)
{
    static struct halo_text_place places[PLACES];
    struct halo_text_worker worker = {0};
    struct halo_text_queue queue;
    struct model model = {0};
    size_t n_free = PLACES;
    struct halo_text_place *free_places[PLACES];
    for (size_t i = 0; i < PLACES; i++)
        free_places[i] = &places[i];
    halo_list_init(&queue.users);
    for (uint64_t step = 0; step < 200000; step++) {
        uint64_t draw = (uint64_t)(halo_rng_uniform(7, step, 0) * 1e9);
        size_t user = draw % USERS, n = model.n[user], at = n > 0 ? draw / 64 % n : 0;
        struct halo_text_place **mine = model.places[user];
        model.now++;
        switch (draw / USERS % 4) {
        case 0:
        case 1:
            if (n_free == 0)
                break;
            mine[model.n[user]++] = free_places[--n_free];
            *mine[n] = (struct halo_text_place){.user = user};
            model.since[user] = n == 0 ? model.now : model.since[user];
            halo_text_queue_add(&queue, mine[n]);
            break;
        case 2: /* its turn is over; it may be its end as well */
            if (n == 0)
                break;
            mine[0]->worker = &worker;
            model.since[user] = model.now;
            halo_text_queue_end_turn(&queue, mine[0]);
            if (draw / 512 % 2 == 0)
                break;
            at = 0;
            __attribute__((fallthrough));
        case 3: /* done, or withdrawn */
            if (n == 0)
                break;
            halo_text_queue_remove(&queue, mine[at]);
            free_places[n_free++] = mine[at];
            forget(&model, user, at);
        }
        check(&queue, &model, true);
        check(&queue, &model, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(users_come_in_turn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
