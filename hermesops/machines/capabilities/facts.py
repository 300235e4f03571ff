"""The table of facts about the agent that hermesops relies on, by the release since which each holds. Pure data.

A fact has a value for each line of releases, a source for each value, the files of hermesops that rely on it, and the
test that holds it. Who changes a file that cites a release's sources changes its fact.

Sources by mark: ``RUN`` observed with that release on a machine, ``READ`` read in its package, ``ISSUE`` upstream's
issue or pull request, ``DOC`` upstream's documents, ``LATER`` a third party's build of a later tree (0.22.2.post1), run
and read by hand on 2026-11-29: evidence about upstream, and not upstream.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_NODE = "hermesops/programs/node"
_LOG_TEST = "tests/unit/programs/node/metrics/test_agent_log.py"
_FILE_TEST = "tests/unit/wire/state/test_agent_files.py"
_GATEWAY_TEST = "tests/unit/machines/capabilities/test_facts.py"


@dataclass(frozen=True)
class Fact:
    """One property of the agent.

    Attributes:
        name: Kind and subject, as ``relay: operations``.
        values: Value by the first line of releases that has it, oldest first; an empty value is an absence.
        source: The grounds of the values.
        used_by: Files of hermesops that rely on it.
        test: The test that fails when hermesops no longer copes with one of the values.
    """

    name: str
    values: Mapping[str, str]
    source: str
    used_by: tuple[str, ...]
    test: str

    def value(self, line: str) -> str:
        """The value for a line of releases, as ``0.21``; empty before the first one."""
        known = [text for since, text in self.values.items() if _key(since) <= _key(line)]
        return known[-1] if known else ""


def _key(line: str) -> tuple[int, ...]:
    return tuple(map(int, line.split(".")))


OPERATIONS = ("send", "follow_up", "get_chat_info")
LATER_OPERATIONS = ("edit", "typing", "send_media", "prompt", "react", "draft", "delete", "thread_create")

FACTS: tuple[Fact, ...] = (
    Fact(
        "package: place of the configuration's version",
        {"0.18": "hermes_cli/config.py", "0.21": "hermes_cli/config_defaults.py"},
        "READ 0.18.2 and 0.19.0: DEFAULT_CONFIG; LATER",
        ("hermesops/machines/release/builder/parts.py",),
        "tests/unit/machines/release/builder/test_parts.py::test_a_later_agent_keeps_its_configurations_version_elsewhere",
    ),
    Fact(
        "package: resources that a wheel lacks",
        {"0.18": "skills, optional-skills", "0.20": "skills, optional-skills, plugins, locales, optional-mcps"},
        "READ 0.19.0; ISSUE packagers' HERMES_NIX_BUILD; LATER speaks raw keys without its locales",
        ("hermesops/machines/release/builder/parts.py", "hermesops/machines/release/source/resources.py"),
        "tests/unit/machines/release/builder/test_build.py",
    ),
    Fact(
        "config: schema",
        {"0.18": "33", "0.20": "37", "0.21": "45", "0.22": "50"},
        "RUN 0.18.2, 0.19.0; ISSUE 90945 (37), 111271 (45); LATER (50)",
        (
            f"{_NODE}/release/config_migration.py",
            f"{_NODE}/state/user_config.py",
            "roles/hermes_gateway/vars/main.yml",
            "hermesops/localcloud/drivers/sim/disk.py",
        ),
        "tests/unit/programs/node/state/test_user_config.py",
    ),
    Fact(
        "config: oldest schema that it migrates",
        {"0.18": "0", "0.20": "12"},
        "RUN 0.19.0 from 10; ISSUE PR 74433; LATER: SUPPORT_FLOOR_VERSION",
        (f"{_NODE}/release/config_migration.py",),
        "tests/unit/programs/node/release/test_activate.py",
    ),
    Fact(
        "config: servers of tools (mcp_servers) by url, headers, timeout, connect_timeout, ssl_verify",
        {"0.18": "yes"},
        "RUN 0.19.0: tools are named mcp__NAME__TOOL",
        ("hermesops/users/connections/agent_access.py",),
        "tests/contract/users/connections/test_work.py",
    ),
    Fact(
        "config: managed scope in /etc/hermes, environment and keys over the user's",
        {"0.18": "yes"},
        "RUN 0.19.0; LATER: hermes_cli/managed_scope.py",
        (
            f"{_NODE}/instance/render.py",
            "hermesops/wire/settings.py",
            "hermesops/localcloud/drivers/sim/agent/gateway.py",
        ),
        "tests/unit/programs/node/instance/test_render.py",
    ),
    Fact(
        "config: providers by name, with base_url, key_env and api_mode, as model.provider custom:NAME",
        {"0.18": "yes; summaries and pictures go there, too"},
        "READ 0.18.2 and RUN 0.19.0: hermes_cli/runtime_provider.py, agent/auxiliary_client.py; not read in later ones",
        (
            f"{_NODE}/instance/render.py",
            "hermesops/wire/model_endpoint.py",
            "hermesops/model/providers/choice.py",
            "hermesops/model/providers/table.py",
        ),
        "tests/contract/agents/model_providers/test_real_agent.py",
    ),
    Fact(
        "config: adapters that are imported unless disabled",
        {"0.18": "20 messengers", "0.20": "20 messengers, a2a-platform, buzz-platform"},
        "READ 0.19.0: plugins/platforms/*/plugin.yaml; ISSUE PR 77109; LATER (without homeassistant-platform)",
        ("roles/hermes_gateway/vars/main.yml", f"{_NODE}/instance/render.py"),
        "tests/unit/programs/node/instance/test_render.py::test_adapters_that_a_release_disables_stay_disabled",
    ),
    Fact(
        "config: unknown keys and adapters",
        {"0.18": "ignored"},
        "RUN 0.19.0 on a configuration of schema 50, and with a2a-platform disabled",
        (f"{_NODE}/release/config_migration.py",),
        "tests/unit/programs/node/state/test_user_config.py",
    ),
    Fact(
        "config: style in which it is written",
        {"0.18": "blocks, a scalar of several lines where it is long"},
        "READ 0.19.0: utils.atomic_yaml_write without flow style; LATER: utils.py and hermes_yaml.py alike",
        (f"{_NODE}/state/config_changes.py",),
        "tests/unit/programs/node/state/test_config_changes.py",
    ),
    Fact(
        "unit: watchdog and readiness",
        {"0.18": "", "0.19": "gateway.systemd_watchdog_seconds"},
        "READ 0.18.2; RUN 0.19.0; LATER: gateway/config.py",
        ("hermesops/machines/release/builder/parts.py",),
        "tests/unit/machines/release/builder/test_build.py",
    ),
    Fact(
        "unit: seconds of a stop",
        {"0.18": "drain + 30", "0.21": "max(60, drain) + 30"},
        "RUN 0.19.0; ISSUE 0.21.0: a kill in a checkpoint damages the database; LATER: stopped after 45 s of drain",
        ("roles/hermes_gateway/templates/hermes-gateway.service.j2",),
        f"{_GATEWAY_TEST}::test_a_stop_has_the_time_that_every_release_takes",
    ),
    Fact(
        "unit: exits",
        {"0.18": "0 on SIGINT, 1 on SIGTERM, 75 to be started again, 78 for settings that cannot work"},
        "RUN 0.19.0; LATER: 0 on SIGINT",
        ("roles/hermes_gateway/templates/hermes-gateway.service.j2",),
        "tests/integration/test_roles_agent.py",
    ),
    Fact(
        "unit: commands",
        {"0.18": "gateway run, config migrate"},
        "RUN 0.19.0; LATER",
        (f"{_NODE}/release/slots/transient_unit.py",),
        "tests/integration/test_release_on_machine.py",
    ),
    Fact(
        "unit: scratch of terminal commands",
        {
            "0.18": "the unit's own /tmp",
            "0.21": "HERMES_HOME/cache/terminal and cache/scratch, unless TERMINAL_TEMP_DIR",
        },
        "RUN 0.19.0; ISSUE 0.21.0; LATER: tools/environments/local.py, a shell's snapshot seen there",
        ("hermesops/wire/state/agent_files.py",),
        f"{_FILE_TEST}::test_scratch_neither_swells_a_backup_nor_hides_from_the_disks_figure",
    ),
    Fact(
        "unit: bytes on the disk for each byte of a wheel",
        {"0.18": "1.7"},
        "RUN 0.19.0: 257 MB of 155",
        (f"{_NODE}/release/slots/install.py",),
        "tests/unit/programs/node/release/slots/test_slot.py",
    ),
    Fact(
        "api: routes",
        {
            "0.18": "health, models, capabilities, chat/completions, responses, runs, sessions, jobs",
            "0.21": "the same, POST /v1/runs/*/steer, /v1/artifacts, /api/model/options, /api/sessions/*/model",
        },
        "READ 0.19.0: gateway/platforms/api_server.py; LATER: 46 routes, none of the 35 gone",
        (
            "hermesops/agents/relay/routes.py",
            "hermesops/agents/relay/service.py",
            "hermesops/localcloud/drivers/sim/agent/api.py",
        ),
        f"{_GATEWAY_TEST}::test_the_relay_passes_only_routes_of_known_releases",
    ),
    Fact(
        "api: detailed health",
        {"0.18": "status, gateway_state, active_agents, platforms, readiness.checks, 200 also when degraded"},
        "RUN 0.19.0; LATER: the same fields, session_store beside state_db",
        (
            "hermesops/wire/protocol.py",
            "hermesops/vendor/channel/agent.py",
            f"{_NODE}/instance/drain.py",
            f"{_NODE}/instance/agent/readiness.py",
            f"{_NODE}/instance/agent/gateway.py",
        ),
        f"{_GATEWAY_TEST}::test_detailed_health_is_read_alike_in_the_shape_of_each_release",
    ),
    Fact(
        "api: a run with Idempotency-Key",
        {"0.18": "", "0.21": "kept for 24 h, answered with replayed: true"},
        "RUN 0.19.0: chat completions alone, in memory; LATER: runs_idempotency in /v1/capabilities",
        ("hermesops/wire/state/agent_files.py", "hermesops/agents/relay/routes.py"),
        "tests/unit/agents/relay/test_routes.py",
    ),
    Fact(
        "api: events of a run after a lost connection",
        {"0.18": "lost", "0.21": "replayed from Last-Event-ID for 5 min"},
        "RUN 0.19.0; READ LATER: api_server_runs.py",
        ("hermesops/agents/relay/routes.py",),
        "tests/unit/agents/relay/test_routes.py",
    ),
    Fact(
        "api: runs",
        {"0.19": "load no history of their session, are gone after a stop, and nothing resumes them"},
        "RUN 0.19.0: kill -9 in a run; two unanswered messages of a user are joined; READ: states and events",
        (
            "hermesops/agents/relay/client.py",
            "hermesops/app/parts/chat.py",
            "hermesops/localcloud/drivers/sim/agent/chat.py",
            "hermesops/model/chat/transcript.py",
            "hermesops/users/chat/agent_runs.py",
            "hermesops/users/chat/decide.py",
            "hermesops/users/chat/shown_events.py",
        ),
        "tests/unit/users/chat/test_decide.py",
    ),
    Fact(
        "api: files in a message",
        {"0.19": "images"},
        "RUN 0.19.0: [screenshot] is stored behind the text of a message with images; READ: other files are refused",
        ("hermesops/users/chat/files.py", "hermesops/users/chat/agent_runs.py"),
        "tests/unit/users/chat/test_files.py",
    ),
    Fact(
        "api: jobs",
        {"0.19": "schedule, prompt, pause, resume"},
        "RUN 0.19.0; READ: cron/jobs.py",
        ("hermesops/users/agent_jobs/service.py",),
        "tests/contract/api/test_endpoints.py",
    ),
    Fact(
        "relay: frames",
        {"0.19": "hello, descriptor, inbound, inbound_ack, outbound, outbound_result, interrupt, going_idle"},
        "RUN 0.19.0; LATER: contract v1 grows, and changes nothing",
        ("hermesops/connector/frames.py", "hermesops/users/messaging/relay_secrets.py"),
        "tests/contract/connector/test_real_gateway.py::test_the_agent_answers_in_the_messenger",
    ),
    Fact(
        "relay: operations",
        {"0.19": ", ".join(OPERATIONS), "0.20": ", ".join((*OPERATIONS, *LATER_OPERATIONS))},
        "RUN 0.19.0; READ a fork of 0.20.1 (edit, typing, send_media, prompt, react); LATER: gateway/relay/adapter.py",
        (
            "hermesops/machines/capabilities/facts.py",
            "hermesops/connector/media.py",
            "hermesops/users/messaging/files/references.py",
        ),
        f"{_GATEWAY_TEST}::test_operations_of_the_relay_only_grow",
    ),
    Fact(
        "relay: where a message is handled",
        {"0.19": "within the loop that reads frames"},
        "RUN 0.19.0: gateway/relay/ws_transport.py, _read_loop; LATER: the same",
        ("roles/hermes_gateway/files/hermes_changes.py",),
        "tests/unit/roles/test_agent_changes.py::test_a_result_is_read_while_a_message_waits_for_it_and_chats_keep_their_order",
    ),
    Fact(
        "jobs: keys",
        {"0.19": "of the user's .env", "0.22": "of the user's .env, and the managed ones, which win"},
        "RUN 0.19.0: agent/secret_scope.py, 401 of the router; LATER: build_profile_secret_scope",
        ("roles/hermes_gateway/files/hermes_changes.py",),
        "tests/unit/roles/test_agent_changes.py::test_a_job_has_the_managed_keys",
    ),
    Fact(
        "relay: a message that comes twice",
        {"0.19": "runs twice", "0.21": "dropped, by the last 512 in memory"},
        "RUN 0.19.0; LATER: gateway/relay/adapter.py",
        ("hermesops/store/message_rows/incoming.py",),
        "tests/contract/store/message_rows/test_message_rows.py::test_a_report_that_is_repeated_is_kept_once",
    ),
    Fact(
        "drain: marker .drain_request.json, read once a second",
        {"0.18": "yes"},
        "RUN 0.19.0: gateway/drain_control.py; LATER: the same file and second",
        (f"{_NODE}/instance/drain.py",),
        "tests/unit/programs/node/instance/test_drain.py",
    ),
    Fact(
        "log: format of a line",
        {"0.18": "TIME,ms LEVEL [session] logger: text"},
        "READ 0.18.2, 0.19.0: hermes_logging.py; LATER: the same format, and loggers' names",
        (f"{_NODE}/metrics/agent_log.py", f"{_NODE}/instance/status.py"),
        _LOG_TEST,
    ),
    Fact(
        "log: a failed call of the model",
        {"0.18": "(attempt 1/3)", "0.21": "(attempt 1/3), (attempt 1/3, not retryable)"},
        "RUN 0.19.0; ISSUE 73237; LATER: agent/turn_recovery.py",
        (f"{_NODE}/metrics/agent_log.py", "hermesops/vendor/channel/agent.py"),
        f"{_LOG_TEST}::test_a_later_agents_lines_count_alike",
    ),
    Fact(
        "log: ends of turns without an answer",
        {"0.18": "6 reasons", "0.21": "15 reasons, session_persistence_failed among them"},
        "READ 0.19.0: agent/turn_finalizer.py; LATER: agent/turn_*.py",
        (f"{_NODE}/metrics/agent_log.py",),
        f"{_LOG_TEST}::test_a_later_agents_lines_count_alike",
    ),
    Fact(
        "log: MCP servers",
        {"0.18": "registered N tool(s), Failed to connect to MCP server, failed initial connection"},
        "RUN 0.19.0: tools/mcp_tool.py; LATER: the same words in tools/mcp_tool_*.py",
        (f"{_NODE}/instance/agent/gateway.py",),
        "tests/unit/programs/node/instance/agent/test_gateway.py",
    ),
    Fact(
        "secrets: names that terminal commands never see",
        {"0.18": "AUXILIARY_*_API_KEY", "0.20": "AUXILIARY_*_API_KEY, GATEWAY_RELAY_*_SECRET|KEY|TOKEN"},
        "READ 0.19.0: tools/environments/local.py; LATER: tools/environments/local_env_policy.py",
        (f"{_NODE}/instance/render.py",),
        "tests/unit/programs/node/instance/test_render.py",
    ),
    Fact(
        "secrets: ssl_ca_cert of a provider, a missing file is ignored",
        {"0.18": "yes"},
        "READ 0.19.0: agent/ssl_verify.py; LATER: the same",
        (f"{_NODE}/instance/render.py", "hermesops/machines/verify/on_machine/observer.py"),
        "tests/unit/programs/node/instance/test_render.py",
    ),
    Fact(
        "relay: words that an agent takes while it is at a message",
        {"0.19": "/approve, /deny, /stop"},
        "RUN 0.19.0, with platform relay; LATER: the same words, and buttons",
        (
            "hermesops/connector/sockets.py",
            "hermesops/users/messaging/inbound/routing.py",
            "hermesops/users/messaging/messengers/commands.py",
        ),
        "tests/contract/connector/test_real_gateway.py"
        "::test_a_dangerous_command_is_approved_in_the_chat_while_the_message_is_under_way",
    ),
    Fact(
        "relay: an answer that was finished without a socket",
        {"0.19": "never sent, and in the transcript; one of a killed turn names no message"},
        "RUN 0.19.0; LATER: the same",
        (
            "hermesops/users/messaging/outbound/answers.py",
            "hermesops/users/messaging/recovery/reconcile.py",
            "hermesops/users/messaging/recovery/transcripts.py",
        ),
        "tests/contract/connector/test_real_gateway.py"
        "::test_an_answer_that_was_finished_while_the_connector_was_away_is_delivered_once",
    ),
    Fact(
        "files: HERMES_HOME",
        {"0.18": "the rows since 0.19", "0.20": "and a2a_*", "0.21": "and the rows since 0.21"},
        "RUN 0.19.0; LATER: a home of 0.19.0 after an hour of it",
        (
            "hermesops/wire/state/agent_files.py",
            "hermesops/wire/state/contents.py",
            "hermesops/wire/state/databases.py",
        ),
        f"{_FILE_TEST}::test_what_a_newer_agent_writes_is_backed_up_by_its_class_and_scratch_is_not",
    ),
    Fact(
        "files: state.db, schema_version",
        {"0.18": "19", "0.19": "22", "0.22": "31"},
        "RUN 0.18.2, 0.19.0; LATER: 5 tables and 27 columns more, none gone; 0.19.0 starts on it and leaves it at 31",
        ("hermesops/wire/state/digest.py", f"{_NODE}/instance/warm.py"),
        "tests/unit/programs/node/state/test_later_state.py",
    ),
    Fact(
        "files: cron/jobs.json and schedules",
        {"0.18": "jobs with id, schedule, prompt; duration, interval, cron, time"},
        "READ 0.19.0: cron/jobs.py; LATER: more fields, and phrases as 'every monday 9am'; 0.19.0 lists its jobs",
        ("hermesops/wire/settings.py", "hermesops/wire/state/digest.py"),
        "tests/unit/programs/node/state/test_later_state.py",
    ),
    Fact(
        "model: requests",
        {"0.18": "OpenAI chat completions, streamed, with tools"},
        "RUN 0.19.0; LATER",
        ("hermesops/localcloud/model_router/scripted_model.py", "hermesops/vendor/channel/agent.py"),
        "tests/integration/test_roles_agent.py",
    ),
)
"""All of them; ``tests/unit/machines/capabilities`` keeps it complete."""
