/* list.h: an intrusive doubly linked list.
 *
 * The node is a member of the item, so that linking never allocates and an item knows whether it is in a list. A zeroed
 * node is in none; a list is initialised before use. The caller owns the items; one thread at a time.
 */
#ifndef HALO_BASE_LIST_H
#define HALO_BASE_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct halo_list_node {
    struct halo_list_node *next, **link; /* link: the pointer that points here; NULL: in no list */
    struct halo_list *list;              /* valid while linked */
};

struct halo_list {
    struct halo_list_node *first, **last; /* last: where the next one is appended */
    size_t n;
};

/* The item that contains a node; NULL for NULL. */
#define HALO_LIST_ITEM(node, type, member)                                                                             \
    ((node) ? (type *)(void *)((char *)(node)-offsetof(type, member)) : (type *)NULL)

static inline void halo_list_init(struct halo_list *list)
{
    *list = (struct halo_list){.last = &list->first};
}

static inline bool halo_list_is_linked(const struct halo_list_node *node)
{
    return node->link;
}

/* Before `next`, which is in the list; NULL: at the end. */
static inline void halo_list_insert(struct halo_list *list, struct halo_list_node *node, struct halo_list_node *next)
{
    assert(!node->link && (!next || next->list == list));
    struct halo_list_node **at = next ? next->link : list->last;
    node->next = next;
    node->link = at;
    node->list = list;
    *at = node;
    if (next)
        next->link = &node->next;
    else
        list->last = &node->next;
    list->n++;
}

static inline void halo_list_append(struct halo_list *list, struct halo_list_node *node)
{
    halo_list_insert(list, node, NULL);
}

static inline void halo_list_prepend(struct halo_list *list, struct halo_list_node *node)
{
    halo_list_insert(list, node, list->first);
}

/* Nothing happens if it is in no list. */
static inline void halo_list_remove(struct halo_list_node *node)
{
    if (!node->link)
        return;
    *node->link = node->next;
    if (node->next)
        node->next->link = node->link;
    else
        node->list->last = node->link;
    node->list->n--;
    node->next = NULL;
    node->link = NULL;
}

#endif
