/* test_list.c: order, insertion in the middle, removal from both ends, an item that is in no list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <base/list.h>

struct item {
    char name;
    struct halo_list_node node;
};

static void expect(const struct halo_list *list, const char *names)
{
    size_t n = 0;
    for (struct halo_list_node *at = list->first; at; at = at->next) {
        assert_true(n < strlen(names));
        assert_int_equal(HALO_LIST_ITEM(at, struct item, node)->name, names[n++]);
        assert_ptr_equal(at->list, list);
    }
    assert_int_equal(n, strlen(names));
    assert_int_equal(list->n, n);
    assert_null(*list->last);
}

static void test_order(void **state)
{
    (void)state;
    struct item a = {'a'}, b = {'b'}, c = {'c'}, d = {'d'};
    struct halo_list list;
    halo_list_init(&list);
    expect(&list, "");
    assert_null(HALO_LIST_ITEM(list.first, struct item, node));
    halo_list_append(&list, &b.node);
    halo_list_append(&list, &d.node);
    halo_list_prepend(&list, &a.node);
    halo_list_insert(&list, &c.node, &d.node);
    expect(&list, "abcd");
    halo_list_remove(&d.node);
    expect(&list, "abc");
    halo_list_append(&list, &d.node);
    halo_list_remove(&a.node);
    halo_list_remove(&c.node);
    expect(&list, "bd");
    halo_list_remove(&b.node);
    halo_list_remove(&d.node);
    expect(&list, "");
    halo_list_append(&list, &a.node);
    expect(&list, "a");
}

static void test_in_no_list(void **state)
{
    (void)state;
    struct item a = {.name = 'a'};
    struct halo_list list;
    halo_list_init(&list);
    assert_false(halo_list_is_linked(&a.node));
    halo_list_remove(&a.node);
    halo_list_append(&list, &a.node);
    assert_true(halo_list_is_linked(&a.node));
    halo_list_remove(&a.node);
    assert_false(halo_list_is_linked(&a.node));
    halo_list_remove(&a.node);
    expect(&list, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_in_no_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
