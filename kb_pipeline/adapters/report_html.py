"""The health report as one self-contained HTML file: no script, no outside resource, inline style and plots (M17).

Belongs here: markup. Does not belong here: what the page says (stages/report_page). Every text is escaped by the
template engine; only the plots, which hold nothing but numbers and fixed labels, are taken as markup.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from kb_pipeline.adapters.report_plots import plot_svg

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATE = "health_report.html.jinja"
_STYLE = "health_report.css"


class PagedWeek(Protocol):
    """A week that has a page."""

    def page(self) -> Any:
        """The page: title, sections and the other attributes that the template reads."""


def health_html(week: PagedWeek) -> str:
    """The page of a week as an HTML document. Run id and clock stand in its header block alone.

    Args:
        week: the week.
    """
    from markupsafe import Markup

    page = week.page()
    environment = _environment()

    def figure(name: str) -> Markup:
        return Markup(plot_svg(page.plots, name))  # noqa: S704 - drawn here from numbers and fixed labels

    style = Markup(_template_text(_STYLE))  # noqa: S704 - our own file
    return environment.get_template(_TEMPLATE).render(page=page, figure=figure, style=style)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_template_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _template_text(name: str) -> str:
    return (files("kb_pipeline.adapters") / "templates" / name).read_text(encoding="utf-8")
