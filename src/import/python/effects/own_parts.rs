//! Models, Trainers and modules of a script that come from code which is no library's: what they hold is not followed.

use super::super::ScriptReader;
use super::super::script::LibraryCall;
use crate::python_models::is_model;

/// Packages whose models, Trainers and modules are read as those of their library, or that make none.
const LIBRARIES: [&str; 40] = [
    "accelerate",
    "adapters",
    "apex",
    "auto_gptq",
    "awq",
    "bitsandbytes",
    "colossalai",
    "datasets",
    "deepspeed",
    "diffusers",
    "evaluate",
    "fairscale",
    "flash_attn",
    "gptqmodel",
    "huggingface_hub",
    "lightning",
    "liger_kernel",
    "modelscope",
    "numpy",
    "optimum",
    "os",
    "peft",
    "pytorch_lightning",
    "pytorch_pretrained_bert",
    "pytorch_transformers",
    "ray",
    "safetensors",
    "sentence_transformers",
    "sklearn",
    "swift",
    "timm",
    "torch",
    "torchao",
    "torchvision",
    "transformers",
    "trl",
    "unsloth",
    "vllm",
    "wandb",
    "xformers",
];

/// What a class of modules inherits from.
const MODULES: [&str; 5] = ["Module", "LightningModule", "PreTrainedModel", "ModelMixin", "PreTrainedModelWrapper"];

/// What a class has in its text that holds weights or loads them.
const WEIGHTS: [&str; 8] = [
    "nn.Linear(",
    "nn.Embedding(",
    "nn.Parameter(",
    "nn.Conv",
    "nn.Sequential(",
    "nn.ModuleList(",
    ".from_pretrained(",
    ".from_config(",
];

/// What else is loaded by a name and holds no weights.
const OTHER_PARTS: [&str; 6] = ["Tokenizer", "Processor", "Config", "FeatureExtractor", "Scheduler", "Dataset"];

/// Methods by which a script moves a module to its device, or trains it.
const OF_MODULES: [&str; 4] = ["cuda", "parameters", "named_parameters", "requires_grad_"];

impl ScriptReader<'_> {
    /// What the script makes of classes of its own or of modules that were not read, each once: models, Trainers, modules
    /// with weights.
    pub fn own_parts(&self) -> Vec<String> {
        let script = self.script.borrow();
        let mut found: Vec<String> = Vec::new();
        for call in script.seen.iter().filter(|call| !call.blindly) {
            if let Some(part) = self.own_part(call).filter(|part| !found.contains(part)) {
                found.push(part);
            }
        }
        found
    }

    fn own_part(&self, call: &LibraryCall) -> Option<String> {
        let path = call.names.first()?;
        let (owner, name) = path.rsplit_once('.').unwrap_or(("", path));
        let class = owner.rsplit('.').next().unwrap_or("");
        if matches!(name, "from_pretrained" | "from_config") && !class.is_empty() {
            let own = is_not_read(owner) || self.defines(class);
            let model = is_model(class) || !OTHER_PARTS.iter().any(|part| class.contains(part));
            return (own && model).then(|| format!("{class}, a model of its own"));
        }
        if call.names.len() > 1 {
            let base = call.names.iter().skip(1).any(|base| is_module(base));
            if base && self.holds_weights(path) {
                return Some(format!("{path}, a module of its own"));
            }
            let model = call.names.iter().skip(1).any(|base| is_model(base.rsplit('.').next().unwrap_or(base)));
            return (model && self.passes_otherwise(path)).then(|| format!("{path} with passes of its own"));
        }
        let handed = |names: &[&str]| call.given.iter().any(|(given, ..)| names.contains(&given.as_str()));
        if name.ends_with("Trainer") && handed(&["model", "args", "train_dataset"]) && is_not_read(path) {
            return Some(format!("{name}, a Trainer of a module that was not read"));
        }
        let made = OF_MODULES.contains(&name) && class.starts_with(char::is_uppercase) && is_not_read(owner);
        made.then(|| format!("{class}, of a module that was not read"))
    }

    fn defines(&self, class: &str) -> bool {
        !class.is_empty() && self.whole.lines().any(|line| line.starts_with(&format!("class {class}(")))
    }

    /// The lines of a class of the project.
    fn body(&self, class: &str) -> impl Iterator<Item = &str> {
        let rest = self.whole.split_once(&format!("class {class}(")).map_or("", |(_, rest)| rest);
        rest.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with([' ', '\t', '#', ')']))
    }

    /// Whether the text of a class makes layers or loads a model.
    fn holds_weights(&self, class: &str) -> bool {
        self.body(class).any(|line| WEIGHTS.iter().any(|part| line.contains(part)))
    }

    /// Whether a class on a library's model goes through it in a way of its own: with a forward pass that is not the model's.
    fn passes_otherwise(&self, class: &str) -> bool {
        let has = |part: &str| self.body(class).any(|line| line.contains(part));
        has("def forward(") && !has("super().forward(") && !has(".forward(self,")
    }
}

/// Whether a path is that of a module which is no library's and was not read: one that was read is a class or a function.
fn is_not_read(path: &str) -> bool {
    let root = path.split('.').find(|part| !part.is_empty()).unwrap_or("");
    path.contains('.') && !LIBRARIES.contains(&root)
}

/// Whether a path of a library's class is that of a kind of modules.
fn is_module(path: &str) -> bool {
    let class = path.rsplit('.').next().unwrap_or(path);
    MODULES.contains(&class) || is_model(class)
}
