/* graph.c: captured work: a list that is replayed as one item of a stream (contract in emu.h). */
#include <pthread.h>
#include <stdlib.h>

#include "emu.h"

struct node {
    struct node *next;
    struct emu_task task;
};

/* Held by the graph's handle, by each executable made from it, and by each queued replay. */
struct emu_graph {
    pthread_mutex_t lock;
    unsigned holders;
    struct node *first, **last;
};

struct emu_graph *emu_graph_create(void)
{
    struct emu_graph *g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    pthread_mutex_init(&g->lock, NULL);
    g->holders = 1;
    g->last = &g->first;
    return g;
}

bool emu_graph_add(struct emu_graph *g, struct emu_task task)
{
    struct node *node = malloc(sizeof(*node));
    if (!node)
        return false;
    *node = (struct node){NULL, task};
    *g->last = node;
    g->last = &node->next;
    return true;
}

void emu_graph_hold(struct emu_graph *g)
{
    pthread_mutex_lock(&g->lock);
    g->holders++;
    pthread_mutex_unlock(&g->lock);
}

void emu_graph_release(void *graph)
{
    struct emu_graph *g = graph;
    pthread_mutex_lock(&g->lock);
    bool last = --g->holders == 0;
    pthread_mutex_unlock(&g->lock);
    if (!last)
        return;
    while (g->first) {
        struct node *node = g->first;
        g->first = node->next;
        node->task.drop(node->task.ud);
        free(node);
    }
    pthread_mutex_destroy(&g->lock);
    free(g);
}

int emu_graph_run(void *graph)
{
    struct emu_graph *g = graph;
    int r = 0;
    for (struct node *node = g->first; node && !r; node = node->next)
        r = node->task.run(node->task.ud);
    return r;
}
