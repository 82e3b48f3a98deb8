"""The tool `calculator`: an exact result of an arithmetic expression."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from cts_async.errors import ToolError
from cts_async.search.toolbox import (
    InvalidArguments,
    Tool,
    ToolCall,
    ToolResult,
    ToolWork,
    TraceLabel,
    Wording,
)
from cts_async.search.tools import AgentSettings
from cts_async.search.turn_format import distinct_texts, first_value

MAX_CHARS: Final = 200
_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def value_of(node: ast.expr) -> float:
    """The value of an expression. Raises ValueError for what is no arithmetic, and ArithmeticError."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value_of(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](value_of(node.left), value_of(node.right))
    raise ValueError("only numbers, + - * / and brackets can be computed")


@dataclass(frozen=True, slots=True)
class CalculatorCall(ToolCall):
    """An expression of at most MAX_CHARS characters."""

    tool: ClassVar[str] = "calculator"
    expression: str

    @property
    def request(self) -> str:
        return self.expression

    async def execute(self, work: ToolWork) -> ToolResult:
        """Compute the expression; the result is a step."""
        return await work.answer(self, {"expression": self.expression}, self._compute)

    async def _compute(self) -> str:
        try:
            return f"{value_of(ast.parse(self.expression, mode='eval').body):.12g}"
        except ZeroDivisionError:
            raise ToolError("division by zero", reason="division by zero") from None
        except (ValueError, ArithmeticError, SyntaxError) as error:
            raise ToolError(str(error), reason="no arithmetic") from None


class Calculator(Tool):
    """Computes what models get wrong in their heads."""

    name = CalculatorCall.tool
    aliases = ("calc", "calculate")
    requests = "calculations"
    labels: ClassVar[Mapping[str, TraceLabel]] = {"calculator": TraceLabel("=", "Calculation", "计算")}
    parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {"expression": {"type": "string"}}
    wording: ClassVar[Mapping[str, Wording]] = {
        "en": Wording(
            "Compute an arithmetic expression.", {"expression": "Numbers, + - * / and brackets: (3 + 4) * 2"}
        ),
        "zh": Wording("计算一个算术表达式。", {"expression": "数字、+ - * / 和括号：(3 + 4) * 2"}),
    }
    example: ClassVar[Mapping[str, Any]] = {"expression": "(3 + 4) * 2"}

    def read(self, arguments: Mapping[str, Any]) -> CalculatorCall:
        expressions = distinct_texts(first_value(arguments, ("expression", "query")), MAX_CHARS)
        if len(expressions) != 1:
            raise InvalidArguments("calculator needs one expression")
        return CalculatorCall(expressions[0])

    def response_chars(self, settings: AgentSettings) -> float:
        return 12


TOOL: Final = Calculator()
