//! Whether a script's text, with that of its project, is all that decides how it trains.

use crate::common::ImportContext;

/// Modules that decide nothing of a loop which calls them: Python's own, and libraries of arrays, models, data and displays.
const KNOWN: &str = "abc argparse array ast asyncio base64 bisect builtins collections concurrent contextlib copy csv ctypes \
    dataclasses datetime enum errno functools gc glob gzip hashlib heapq importlib inspect io itertools json logging math \
    multiprocessing numbers operator os pathlib pickle platform pprint psutil queue random re resource shutil signal socket \
    sqlite3 statistics string struct subprocess sys tempfile textwrap threading time traceback types typing uuid warnings \
    weakref zipfile __future__ typing_extensions torch torchvision torchaudio torchtext transformers tokenizers datasets \
    tiktoken sentencepiece safetensors huggingface_hub peft timm einops numpy np scipy pandas sklearn matplotlib PIL cv2 \
    tqdm rich loguru click fire yaml omegaconf wandb tensorboard tensorboardX mlflow evaluate nltk lightning \
    pytorch_lightning accelerate keras";

/// Whether every module that a text imports is one of these, or stands in the project that it is read with.
pub(super) fn are_known(context: &ImportContext, path: &str, text: &str) -> bool {
    let folder = path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let is_own = |name: &str| {
        let files = ["", folder.as_str()].map(|root| [format!("{root}{name}.py"), format!("{root}{name}/__init__.py")]);
        files.concat().iter().any(|file| context.run.files.read(file).is_ok())
    };
    let is_known = |name: &str| KNOWN.split_whitespace().any(|known| known == name) || is_own(name);
    text.lines().map(str::trim_start).all(|line| match (line.strip_prefix("from "), line.strip_prefix("import ")) {
        (Some(rest), _) => rest.starts_with('.') || !line.contains(" import ") || is_known(top(rest)),
        (_, Some(rest)) => rest.split(',').all(|name| is_known(top(name))),
        _ => true,
    })
}

/// The first part of a module's name.
fn top(rest: &str) -> &str {
    rest.trim_start().split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next().unwrap_or("")
}
