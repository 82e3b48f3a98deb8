"""A folder with the form of the published agents' repository, and words of our own in it."""

from __future__ import annotations

from pathlib import Path

CHAT = '''
import os
from demos.agents.search_agent import SearchAgent

Path("executed").touch()  # nothing here may run


def init(tools=["search", "visit"]):
    def make_system_prompt():
        system_message = "You seek. " \\
            "Give up never.\\n\\n" \\
            f"It is [{date2str(get_date_now(), with_week=True)}] now."
        return system_message

    return SearchAgent(
        system_message="",
        make_system_prompt=make_system_prompt,
        custom_user_prompt="""Think, call, answer:
<tool_call>
{"name": "a tool", "arguments": {...}}
</tool_call>

User: """,
    )
'''
SEARCH = """
@register_tool("search", allow_overwrite=True)
class Search(BaseTool):
    name = "search"
    description = "Asks in many ways: 'query' is a list."
    parameters = {"type": "object", "properties": {"query": {"type": "array"}}, "required": ["query"]}

    def call(self, params):
        raise RuntimeError
"""
VISIT = '''
extractor_prompt = """Read this:
{webpage_content}

For this: {goal}
{{
  "evidence": "string"
}}
"""


class Visit(BaseTool):
    name = "visit"
    description = "Reads pages – whole ones."
    parameters = {"type": "object", "properties": {"url": {}, "goal": {}}, "required": ["url", "goal"]}
'''
SEARCH_LINE = (
    '{"type": "function", "function": {"name": "search", "description": "Asks in many ways: \'query\' is a list.", '
    '"parameters": {"type": "object", "properties": {"query": {"type": "array"}}, "required": ["query"]}}}'
)
VISIT_LINE = (
    '{"type": "function", "function": {"name": "visit", "description": "Reads pages – whole ones.", "parameters": '
    '{"type": "object", "properties": {"url": {}, "goal": {}}, "required": ["url", "goal"]}}}'
)
PYTHON_LINE = """{"type": "function", "function": {"name": "PythonInterpreter", "description": "Runs code:
{"name": "PythonInterpreter", "arguments": {}}
<code>
print(1)
</code>", "parameters": {}}}"""
PROMPT = f'''
SYSTEM_PROMPT = """You research deeply.

# Tools

<tools>
{SEARCH_LINE}
{PYTHON_LINE}
{VISIT_LINE}
</tools>

Current date: """

EXTRACTOR_PROMPT = """Read {{webpage_content}} for {{goal}}.
"""
'''
LATER_PROMPT = '''
SYSTEM_PROMPT_TEMPLATE = """You research deeply.

# Tools

<tools>
__TOOL_DEFINITIONS__
</tools>

Current date: """

SYSTEM_PROMPT = build_system_prompt(())

EXTRACTOR_PROMPT = """Read {webpage_content} for {goal}.
"""
'''
WEBDANCER = "WebAgent/WebDancer/demos"


def make_clone(folder: Path) -> Path:
    """Write the files of both agents below `folder`."""
    files = {
        f"{WEBDANCER}/assistant_qwq_chat.py": CHAT,
        f"{WEBDANCER}/tools/private/search.py": SEARCH,
        f"{WEBDANCER}/tools/private/visit.py": VISIT,
        "inference/prompt.py": PROMPT,
        "inference/tool_search.py": SEARCH,
        "inference/tool_visit.py": VISIT,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder
