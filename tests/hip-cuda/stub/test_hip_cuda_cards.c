/* test_hip_cuda_cards.c: the provider's cards, over a driver without one (stub_driver.h): each thread has its own, and
 * what it makes is made in that card's context.
 *
 * Usage: test_hip_cuda_cards PATH-OF-PROVIDER. Linked with the stub, so that the provider finds it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "driver.h"
#include "stub_driver.h"

static struct {
#define HALO_HIP_FN(name, arguments) int(*name) arguments;
#include "hip_api.def"
#undef HALO_HIP_FN
} hip;

/* The card of an address that the calling thread allocates now; -1: it gets none. */
static int card_of_memory(void)
{
    void *p = NULL;
    return hip.Malloc(&p, 256) ? -1 : (int)((uintptr_t)p / STUB_CARD_BYTES) - 1;
}

static void *allocate(void *ret)
{
    *(int *)ret = card_of_memory();
    return NULL;
}

static int card_of_new_thread(void)
{
    pthread_t thread;
    int card = -1;
    assert_int_equal(pthread_create(&thread, NULL, allocate, &card), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return card;
}

/* First of all: nothing has chosen or retained a card before. */
static void a_context_that_cannot_be_had_is_asked_for_again(void **state)
{
    stub_fail_retain(2);
    assert_int_equal(hip.SetDevice(0), 2);
    assert_int_equal(card_of_memory(), -1);
    stub_fail_retain(0);
    assert_int_equal(card_of_memory(), 0);
}

static void threads_begin_with_the_first_card_and_keep_their_own(void **state)
{
    assert_int_equal(hip.SetDevice(1), 0);
    assert_int_equal(card_of_memory(), 1);
    assert_int_equal(card_of_new_thread(), 0);
    assert_int_equal(card_of_memory(), 1);
    assert_int_equal(hip.SetDevice(0), 0);
    assert_int_equal(card_of_memory(), 0);
    for (int card = 0; card < STUB_CARDS; card++)
        assert_int_equal(stub_n_retained(card), 1);
}

static void a_card_that_is_not_there_changes_nothing(void **state)
{
    static const int ordinals[] = {-1, STUB_CARDS, 64, 1 << 30};
    assert_int_equal(hip.SetDevice(1), 0);
    for (size_t i = 0; i < sizeof(ordinals) / sizeof(ordinals[0]); i++)
        assert_int_equal(hip.SetDevice(ordinals[i]), CUDA_INVALID_DEVICE);
    assert_int_equal(card_of_memory(), 1);
}

static void after_a_failed_choice_the_thread_has_its_old_card(void **state)
{
    assert_int_equal(hip.SetDevice(1), 0);
    stub_fail_set_current(719);
    assert_int_equal(hip.SetDevice(0), 719);
    assert_int_equal(stub_current(), -1);
    assert_int_equal(card_of_memory(), 1);
}

static void objects_are_made_in_the_context_of_their_card(void **state)
{
    void *p = NULL;
    size_t n_free, n_total;
    for (int card = STUB_CARDS - 1; card >= 0; card--) {
        assert_int_equal(hip.SetDevice(card), 0);
#define MADE_THERE(call)                                                                                               \
    do {                                                                                                               \
        assert_int_equal(call, 0);                                                                                     \
        assert_int_equal(stub_seen(), card);                                                                           \
    } while (0)
        MADE_THERE(hip.MemGetInfo(&n_free, &n_total));
        MADE_THERE(hip.HostMalloc(&p, 64, 0));
        MADE_THERE(hip.StreamCreateWithFlags(&p, 1));
        MADE_THERE(hip.EventCreateWithFlags(&p, 2));
        MADE_THERE(hip.ModuleLoadData(&p, "image"));
        MADE_THERE(hip.GraphInstantiate(&p, NULL, NULL, NULL, 0));
        MADE_THERE(hip.ModuleLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
#undef MADE_THERE
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_that_cannot_be_had_is_asked_for_again),
        cmocka_unit_test(threads_begin_with_the_first_card_and_keep_their_own),
        cmocka_unit_test(a_card_that_is_not_there_changes_nothing),
        cmocka_unit_test(after_a_failed_choice_the_thread_has_its_old_card),
        cmocka_unit_test(objects_are_made_in_the_context_of_their_card),
    };
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        return 2;
#define HALO_HIP_FN(name, arguments)                                                                                   \
    *(void **)&hip.name = dlsym(library, "hip" #name);                                                                 \
    if (!hip.name)                                                                                                     \
        return 2;
#include "hip_api.def"
#undef HALO_HIP_FN
    return cmocka_run_group_tests(tests, NULL, NULL);
}
