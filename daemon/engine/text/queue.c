/* queue.c: whose turn it is among the requests that wait for a text worker.
 *
 * Pure; under the lock of the text workers. Nothing is allocated: a request carries its own place.
 */
#include <assert.h>

#include "text/text_priv.h"

static struct halo_text_place *place_of(struct halo_list_node *node)
{
    return HALO_LIST_ITEM(node, struct halo_text_place, node);
}

static struct halo_text_place *first_of(const struct halo_text_queue *queue, uint64_t user)
{
    struct halo_text_place *place = place_of(queue->users.first);
    while (place && place->user != user)
        place = place_of(place->node.next);
    return place;
}

void halo_text_queue_add(struct halo_text_queue *queue, struct halo_text_place *place)
{
    struct halo_text_place *last = first_of(queue, place->user);
    place->next = NULL;
    if (!last) {
        halo_list_append(&queue->users, &place->node);
        return;
    }
    while (last->next)
        last = last->next;
    last->next = place;
}

void halo_text_queue_remove(struct halo_text_queue *queue, struct halo_text_place *place)
{
    struct halo_text_place *first = first_of(queue, place->user), *before = first;
    assert(first);
    if (first == place) {
        if (place->next)
            halo_list_insert(&queue->users, &place->next->node, &place->node);
        halo_list_remove(&place->node);
        return;
    }
    while (before->next != place) {
        before = before->next;
        assert(before);
    }
    before->next = place->next;
}

void halo_text_queue_end_turn(struct halo_text_queue *queue, struct halo_text_place *place)
{
    assert(halo_list_is_linked(&place->node));
    halo_list_remove(&place->node);
    halo_list_append(&queue->users, &place->node);
}

struct halo_text_place *halo_text_queue_next(const struct halo_text_queue *queue, bool may_begin)
{
    struct halo_text_place *place = place_of(queue->users.first);
    while (place && !place->worker && !may_begin)
        place = place_of(place->node.next);
    return place;
}
