"""The chat page over the users' API, with an agent that does what a test says, one event at a time."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Browser

from hermesops.base.waiting import Pending, until
from hermesops.users.chat import carrier, service
from tests.support.pages.chat_page import Browsers, ChatPage
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import UsersApi, users_api
from tests.support.users.scripted_agent import Run, ScriptedAgent

_CHOICES = ("once", "session", "always", "deny")


@dataclass
class ScriptedChat:
    """The API with its agent, and the browsers of its one user."""

    api: UsersApi
    browsers: Browsers

    @property
    def agent(self) -> ScriptedAgent:
        return self.api.agent

    async def asked(self, chat: ChatPage, text: str) -> Run:
        """Send a message on a page; the run that the agent begins for it."""
        await chat.send(text)
        return await self.run_of(text)

    async def run_of(self, text: str) -> Run:
        """The agent's newest run, once it is of this message and has not ended."""

        async def check() -> Run | Pending[Run]:
            runs = [run for run in self.agent.runs.values() if run.status == "running" and run.text == text.strip()]
            return runs[-1] if runs else Pending("not yet")

        return await until(check, what=f"the agent gets {text[:20]}", timeout_s=30, every_s=0.02)

    async def choice_of(self, run: Run) -> str:
        """The answer to the agent's request for approval; the page may know it a moment before the agent."""

        async def check() -> str | Pending[str]:
            return run.choices[0] if run.choices else Pending("none")

        return await until(check, what="the agent gets the answer", timeout_s=30, every_s=0.02)

    def write(self, run: Run, *pieces: str) -> None:
        """Let the agent write pieces of its answer."""
        for piece in pieces:
            self.agent.push(run, "message.delta", delta=piece)

    def answer(self, run: Run, text: str) -> None:
        """Let the agent answer."""
        self.write(run, text)
        self.agent.end(run, text)

    def use_tool(self, run: Run, tool: str, preview: str) -> None:
        """Let the agent begin and end a tool's work."""
        self.agent.push(run, "tool.started", tool=tool, preview=preview)
        self.agent.push(run, "tool.completed", tool=tool, error=False)

    def ask_approval(self, run: Run, command: str, choices: Sequence[str] = _CHOICES) -> None:
        """Let the agent ask whether it may run a command."""
        words = "it may delete files"
        self.agent.push(run, "approval.request", command=command, description=words, choices=list(choices))

    def quiet(self) -> None:
        """Let every run end, for a user has two at most; the next ones do what the test says."""
        for run in list(self.agent.runs.values()):
            if run.status == "running":
                self.agent.end(run, "ended")
        self.agent.says = False


@asynccontextmanager
async def scripted_chat(folder: Path, browser: Browser) -> AsyncIterator[ScriptedChat]:
    """The API on SQLite, which looks again at once where it would wait for seconds."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, seconds in (
            (carrier, "_AGAIN_S", 0.05),
            (carrier, "_LOOK_S", 0.3),
            (service, "_SWEEP_S", 0.5),
            (service, "_LOOK_S", 0.3),
        ):
            patch.setattr(module, name, seconds)
        async with users_api(folder, f"sqlite:///{folder}/registry.db", TurnedClock()) as api:
            api.agent.says = False
            yield ScriptedChat(api, Browsers(browser, api.process.url))
