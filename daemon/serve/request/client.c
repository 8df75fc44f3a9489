/* client.c: a client as requests see it. */
#include <serve/request/client.h>

void halo_client_init(struct halo_client *client, struct halo_quota_user *user, struct halo_json *out,
                      struct halo_list *touched)
{
    *client = (struct halo_client){.user = user, .out = out, .touched = touched};
    halo_list_init(&client->requests);
}

void halo_client_touch(struct halo_client *client)
{
    if (!client->closed && !halo_list_is_linked(&client->touch))
        halo_list_append(client->touched, &client->touch);
}

void halo_client_break(struct halo_client *client)
{
    if (client->closed)
        return;
    client->broken = true;
    halo_client_touch(client);
}
