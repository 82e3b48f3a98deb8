"""A Clarifier that says why it asks: the reason is kept and shown, and no other role is sent it."""

from cts_async import role


@role("clarifier", version="1")
def ask(view):
    questions = [f"Which {aspect} of {view.blurred_query}?" for aspect in ("time", "place", "kind")]
    return {"questions": questions[: view.k], "rationale": "they change the answer most"}
