"""Texts of a database's errors, without the values of rows.

PostgreSQL sends the rows that it refuses to its client, whatever its own log has: ``DETAIL: Key (user_id)=(ada) already
exists``, ``Failing row contains (…)``, and ``CONTEXT`` with the line of a COPY. Errors about the form of a value quote
it in their first line. psycopg and SQLAlchemy put all of that into the error's text, which tracebacks repeat;
``hide_parameters`` hides what the client sent, not this. Source: PostgreSQL's manual, 55.8 "Error and Notice Message
Fields", and appendix A for class 22.
"""

import sqlalchemy as sa

_DATA_EXCEPTION = "22"
"""Class of errors about a value itself; their first lines quote it."""

_MOST = 300


def hide_rows(engine: sa.Engine) -> None:
    """Have every error of an engine without the values of rows, before anybody reads its text."""

    @sa.event.listens_for(engine, "handle_error")
    def hide(context: sa.engine.ExceptionContext) -> None:
        original, wrapped = context.original_exception, context.sqlalchemy_exception
        before = str(original)
        text = text_of(original)
        if text == before:
            return
        original.args = (text,)
        if wrapped is not None:
            wrapped.args = tuple(part.replace(before, text) if isinstance(part, str) else part for part in wrapped.args)


def text_of(error: BaseException) -> str:
    """Text of a driver's error: for a server's answer its first field alone, without a value; else as it is. Pure."""
    code = str(getattr(error, "sqlstate", None) or "")
    diagnostic = getattr(error, "diag", None)
    if not code or diagnostic is None:
        return str(error)
    if code.startswith(_DATA_EXCEPTION):
        return f"a value has the wrong form ({type(error).__name__}, {code})"
    return str(diagnostic.message_primary or "")[:_MOST] or f"{type(error).__name__} ({code})"
