"""An agent that asks which one is meant where its search finds several pages, and searches again with the reply."""

from cts_async import role


@role("agent", version="1")
async def find(view, search, visit, ask):
    hits = await search(view.query)
    if len(hits) > 1 and getattr(view, "max_asks", 0):
        titles = " or ".join(hit.title for hit in hits[:2])
        ask_reply = await ask(f"Which one do you mean: {titles}?")
        if not ask_reply.unknown:
            hits = await search(f"{view.query} {ask_reply.reply}")
    if not hits:
        return "nothing was found"
    page = await visit(hits[0].url)
    return page.text[:500]
