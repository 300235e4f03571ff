"""Model providers whose keys users may bring, and those that cannot be brought. Pure data.

Sources: ``PROVIDER_REGISTRY`` in ``hermes_cli/auth.py`` and ``plugins/model-providers`` of hermes-agent 0.19.0, whose
ids and hosts a test compares with this table; the providers' own documents for addresses in the form of OpenAI's API
and for beginnings of keys (2026-12-01). A beginning that a provider does not document is not named.
"""

from hermesops.model.providers.provider import RESPONSES, ForeignSignIn, KeyCheck, ModelNames, ModelProvider

CUSTOM = "custom"
"""Id of an address of the user's own."""

PROVIDERS: tuple[ModelProvider, ...] = (
    ModelProvider(
        "openrouter",
        "OpenRouter",
        "openrouter",
        "https://openrouter.ai/api/v1",
        "anthropic/claude-sonnet-4.5",
        check=KeyCheck.KEY,  # its list of models is public
        keys=("sk-or-",),
        marks=("sk-or-",),
        names=ModelNames.VENDOR,
        note="Models of all large vendors with one key; prompts of Claude are cached.",
    ),
    ModelProvider(
        "openai",
        "OpenAI",
        "openai-api",
        "https://api.openai.com/v1",
        "gpt-5.2",
        api_mode=RESPONSES,  # its newer models refuse tools with reasoning in the older form
        keys=("sk-",),
        marks=("sk-proj-", "sk-svcacct-"),
        families=("gpt-", "o1", "o3", "o4", "chatgpt-", "codex-"),
        note="Needs an API key; a ChatGPT subscription has no API key.",
    ),
    ModelProvider(
        "anthropic",
        "Anthropic",
        "anthropic",
        "https://api.anthropic.com/v1",
        "claude-sonnet-4-5",
        list_query="?limit=1000",  # 20 without it
        key_header="x-api-key",
        keys=("sk-ant-api",),
        marks=("sk-ant-",),
        families=("claude-",),
        note="By Anthropic's OpenAI-compatible API: prompts are not cached and cost more than by OpenRouter; Anthropic "
        "offers this API for tests.",
    ),
    ModelProvider(
        "gemini",
        "Google AI Studio",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-2.5-pro",
        keys=("AIza", "AQ."),
        marks=("AIza",),
        families=("gemini-", "gemma-"),
    ),
    ModelProvider(
        "xai",
        "xAI",
        "xai",
        "https://api.x.ai/v1",
        "grok-4",
        api_mode=RESPONSES,
        keys=("xai-",),
        marks=("xai-",),
        families=("grok-",),
    ),
    ModelProvider(
        "deepseek",
        "DeepSeek",
        "deepseek",
        "https://api.deepseek.com/v1",
        "deepseek-chat",
        keys=("sk-",),
        note="Its models see no pictures.",
    ),
    ModelProvider("zai", "Z.AI", "zai", "https://api.z.ai/api/paas/v4", "glm-5", check=KeyCheck.TURN),
    ModelProvider(
        "zai-coding",
        "Z.AI Coding Plan",
        "zai",
        "https://api.z.ai/api/coding/paas/v4",
        "glm-5.2",
        check=KeyCheck.TURN,
        note="For keys of a coding plan only; other keys are refused.",
    ),
    ModelProvider("kimi", "Moonshot", "kimi-coding", "https://api.moonshot.ai/v1", "kimi-k2-turbo-preview"),
    ModelProvider(
        "kimi-cn", "Moonshot (China)", "kimi-coding-cn", "https://api.moonshot.cn/v1", "kimi-k2-turbo-preview"
    ),
    ModelProvider(
        "kimi-code",
        "Kimi Code",
        "kimi-coding",
        "https://api.kimi.com/coding/v1",
        "kimi-for-coding",
        check=KeyCheck.TURN,
        keys=("sk-kimi-",),
        marks=("sk-kimi-",),
        note="Its models see no pictures.",
    ),
    ModelProvider("minimax", "MiniMax", "minimax", "https://api.minimax.io/v1", "MiniMax-M2.5", check=KeyCheck.TURN),
    ModelProvider(
        "minimax-cn",
        "MiniMax (China)",
        "minimax-cn",
        "https://api.minimaxi.com/v1",
        "MiniMax-M2.5",
        check=KeyCheck.TURN,
    ),
    ModelProvider(
        "alibaba",
        "Alibaba Model Studio",
        "alibaba",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "qwen3-max",
        check=KeyCheck.TURN,
        keys=("sk-",),
        note="For international keys; for keys of China use custom with their address.",
    ),
    ModelProvider(
        "alibaba-coding",
        "Alibaba Coding Plan",
        "alibaba-coding-plan",
        "https://coding-intl.dashscope.aliyuncs.com/v1",
        "qwen3-coder-plus",
        check=KeyCheck.TURN,
        keys=("sk-sp-",),
        marks=("sk-sp-",),
    ),
    ModelProvider(
        "stepfun", "StepFun", "stepfun", "https://api.stepfun.ai/step_plan/v1", "step-3.5-flash", check=KeyCheck.TURN
    ),
    ModelProvider(
        "xiaomi",
        "Xiaomi MiMo",
        "xiaomi",
        "https://api.xiaomimimo.com/v1",
        "mimo-v2-pro",
        check=KeyCheck.TURN,  # its list refuses good keys, too
    ),
    ModelProvider(
        "arcee", "Arcee AI", "arcee", "https://api.arcee.ai/api/v1", "trinity-large-preview", check=KeyCheck.TURN
    ),
    ModelProvider("upstage", "Upstage", "upstage", "https://api.upstage.ai/v1", "solar-pro3", check=KeyCheck.TURN),
    ModelProvider(
        "tencent",
        "Tencent TokenHub",
        "tencent-tokenhub",
        "https://tokenhub.tencentmaas.com/v1",
        "hy3-preview",
        check=KeyCheck.TURN,
    ),
    ModelProvider(
        "nvidia",
        "NVIDIA NIM",
        "nvidia",
        "https://integrate.api.nvidia.com/v1",
        "nvidia/llama-3.3-nemotron-super-49b-v1.5",
        check=KeyCheck.TURN,
        keys=("nvapi-",),
        marks=("nvapi-",),
        names=ModelNames.VENDOR,
    ),
    ModelProvider(
        "huggingface",
        "Hugging Face",
        "huggingface",
        "https://router.huggingface.co/v1",
        "deepseek-ai/DeepSeek-V3.2",
        check=KeyCheck.TURN,
        keys=("hf_",),
        marks=("hf_",),
        names=ModelNames.VENDOR,
        note="Use a token that may call inference providers and nothing else.",
    ),
    ModelProvider(
        "ollama-cloud",
        "Ollama Cloud",
        "ollama-cloud",
        "https://ollama.com/v1",
        "gpt-oss:120b",
        check=KeyCheck.TURN,
        names=ModelNames.ANY,
    ),
    ModelProvider(
        "opencode-zen",
        "OpenCode Zen",
        "opencode-zen",
        "https://opencode.ai/zen/v1",
        "kimi-k2.5",
        check=KeyCheck.TURN,
        names=ModelNames.ANY,
        note="Only its models in the form of OpenAI's chat completions.",
    ),
    ModelProvider(
        "opencode-go",
        "OpenCode Go",
        "opencode-go",
        "https://opencode.ai/zen/go/v1",
        "glm-5",
        check=KeyCheck.TURN,
        names=ModelNames.ANY,
        note="Only its models in the form of OpenAI's chat completions.",
    ),
    ModelProvider(
        "kilocode",
        "Kilo Code",
        "kilocode",
        "https://api.kilo.ai/api/gateway",
        "google/gemini-3-flash-preview",
        check=KeyCheck.TURN,
        names=ModelNames.VENDOR,
    ),
    ModelProvider(
        "gmi",
        "GMI Cloud",
        "gmi",
        "https://api.gmi-serving.com/v1",
        "zai-org/GLM-5.1-FP8",
        check=KeyCheck.TURN,
        names=ModelNames.VENDOR,
    ),
    ModelProvider(
        "fireworks",
        "Fireworks AI",
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "accounts/fireworks/models/kimi-k2p6",
        check=KeyCheck.TURN,  # its list has some of its models
        keys=("fw_",),
        marks=("fw_",),
        names=ModelNames.VENDOR,
    ),
    ModelProvider(
        "deepinfra",
        "DeepInfra",
        "deepinfra",
        "https://api.deepinfra.com/v1/openai",
        "deepseek-ai/DeepSeek-V3.2",
        check=KeyCheck.TURN,
        names=ModelNames.VENDOR,
    ),
    ModelProvider(
        "novita",
        "NovitaAI",
        "novita",
        "https://api.novita.ai/openai/v1",
        "moonshotai/kimi-k2.5",
        check=KeyCheck.TURN,
        names=ModelNames.VENDOR,
    ),
    ModelProvider(
        "azure",
        "Microsoft Foundry",
        "azure-foundry",
        "",
        "gpt-5.2",
        hosts=(".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"),
        check=KeyCheck.TURN,  # its list has models, and no deployments
        key_header="api-key",
        names=ModelNames.ANY,
        note="The address is your resource's, as https://NAME.openai.azure.com/openai/v1; the model is its deployment.",
    ),
    ModelProvider(
        CUSTOM,
        "OpenAI-compatible server",
        "",
        "",
        "my-model",
        names=ModelNames.ANY,
        note="Any server on the internet with OpenAI's chat completions API, by https.",
    ),
)

FOREIGN_SIGN_INS: tuple[ForeignSignIn, ...] = (
    ForeignSignIn(
        "nous",
        "Nous Portal",
        "it signs in by a browser and gives no lasting key",
        "use openrouter, which has its models",
    ),
    ForeignSignIn(
        "openai-codex",
        "OpenAI Codex",
        "a ChatGPT subscription signs in by a browser",
        "make a key of the API, and use openai",
    ),
    ForeignSignIn(
        "xai-oauth", "xAI Grok subscription", "it signs in by a browser", "make a key of the API, and use xai"
    ),
    ForeignSignIn(
        "qwen-oauth", "Qwen Portal", "it signs in by a browser", "make a key of Model Studio, and use alibaba"
    ),
    ForeignSignIn(
        "minimax-oauth", "MiniMax sign-in", "it signs in by a browser", "make a key of the API, and use minimax"
    ),
    ForeignSignIn(
        "copilot",
        "GitHub Copilot",
        "its key is a token of a GitHub account, which opens more than models",
        "use openrouter or the model's own vendor",
    ),
    ForeignSignIn("copilot-acp", "GitHub Copilot ACP", "it is a program on the user's own computer", "use openrouter"),
    ForeignSignIn(
        "lmstudio", "LM Studio", "it is a program on the user's own computer", "publish it by https, and use custom"
    ),
    ForeignSignIn(
        "bedrock",
        "AWS Bedrock",
        "it takes credentials of an AWS account, and a package that releases lack",
        "use openrouter",
    ),
    ForeignSignIn(
        "vertex",
        "Google Vertex AI",
        "it takes a service account's file, not a key",
        "make a key of AI Studio, and use gemini",
    ),
)

BY_ID = {provider.id: provider for provider in PROVIDERS}
