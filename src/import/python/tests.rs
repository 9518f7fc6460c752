use super::{PassedArgument, ScriptReader};
use crate::origin::Origin;
use crate::python_models::made_anew;
use crate::settings::{Settings, whole};

fn given(entries: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in entries {
        settings.set(name, (*value).into(), Origin::Argument((*name).to_owned()));
    }
    settings
}

fn batch(text: &str, own: &[(&str, &str)]) -> Option<u64> {
    let reader = ScriptReader::new("train.py", text, given(own));
    reader.calls(&["TrainingArguments"]).whole("per_device_train_batch_size").map(|found| found.value)
}

#[test]
fn arguments_go_through_functions_and_objects() {
    let text = "\
import argparse
from dataclasses import dataclass
from transformers import TrainingArguments

@dataclass
class Sizes:
    micro: int = 4
    whole: int = 64

    @property
    def steps(self):
        return self.whole // self.micro

def arguments(sizes, *, twice=False):
    factor = 2 if twice else 1
    return TrainingArguments(per_device_train_batch_size=sizes.micro * factor,
                             gradient_accumulation_steps=sizes.steps)

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--micro', type=int, default=8)
    args = parser.parse_args()
    arguments(Sizes(micro=args.micro), twice=True)

if __name__ == '__main__':
    main()
";
    // 8 x 2, and 64 / 8.
    assert_eq!(batch(text, &[]), Some(16));
    let reader = ScriptReader::new("train.py", text, given(&[("micro", "2")]));
    let found = reader.calls(&["TrainingArguments"]);
    assert_eq!(found.whole("per_device_train_batch_size").unwrap().value, 4);
    assert_eq!(found.whole("gradient_accumulation_steps").unwrap().value, 32);
    assert!(!reader.asked.get(), "nothing is a default of the script's");
    assert_eq!(
        found.whole("gradient_accumulation_steps").unwrap().origin.to_string(),
        "train.py:17: gradient_accumulation_steps"
    );
}

#[test]
fn a_condition_that_is_not_known_leaves_what_differs_open() {
    let text = |condition: &str| {
        format!(
            "import os\nsize, rate = 4, 1e-4\nif {condition}:\n    size = 8\n    rate = 1e-4\nTrainingArguments(per_device_train_batch_size=size, learning_rate=rate)\n"
        )
    };
    let rate = |text: &str| {
        ScriptReader::new("a.py", text, Settings::default()).calls(&["TrainingArguments"]).number("learning_rate")
    };
    assert_eq!(batch(&text("os.path.exists('x')"), &[]), None);
    assert_eq!(rate(&text("os.path.exists('x')")).unwrap().value, 1e-4);
    assert_eq!(batch(&text("torch.cuda.is_available()"), &[]), Some(8));
    assert_eq!(batch(&text("not torch.cuda.is_available()"), &[]), Some(4));
    // A branch that ends the program is not the one that a run takes.
    let text = "size = 4\nif bad():\n    size = 1\n    raise ValueError('no')\nTrainingArguments(per_device_train_batch_size=size)\n";
    assert_eq!(batch(text, &[]), Some(4));
    // Not even where its condition holds for what nobody gives: who trains gives it.
    let text = "\
def main(model: str = 'esm2', trust: bool = False):
    if not trust and 'esm2' in model:
        raise ValueError('run again with --trust')
    TrainingArguments(per_device_train_batch_size=3)
if __name__ == '__main__':
    sys.exit(main())
";
    assert_eq!(batch(text, &[]), Some(3));
}

#[test]
fn dictionaries_are_put_together() {
    let text = "\
base = {'bf16': True, 'per_device_train_batch_size': 2}
if len(sys.argv) > 1:
    base['warmup_steps'] = 5
extra = dict(base, gradient_checkpointing=True)
extra.update(per_device_train_batch_size=6)
args = TrainingArguments(**extra, fsdp_config={'version': 2})
";
    let reader = ScriptReader::new("a.py", text, Settings::default());
    let found = reader.calls(&["TrainingArguments"]);
    assert_eq!(found.whole("per_device_train_batch_size").unwrap().value, 6);
    assert!(found.flag("bf16").unwrap().value);
    assert!(found.flag("gradient_checkpointing").unwrap().value);
    assert_eq!(found.whole("fsdp_config.version").unwrap().value, 2);
}

#[test]
fn a_call_in_a_branch_that_is_not_taken_is_none() {
    let text = "\
def main(use_lora: bool = False, rank: int = 8):
    if use_lora:
        config = LoraConfig(r=rank, target_modules=['q_proj', 'v_proj'])
fire.Fire(main)
";
    let reader = ScriptReader::new("a.py", text, Settings::default());
    assert_eq!(reader.reached(&["LoraConfig"]), Some(false));
    let reader = ScriptReader::new("a.py", text, given(&[("use_lora", "True"), ("rank", "64")]));
    assert_eq!(reader.reached(&["LoraConfig"]), Some(true));
    let found = reader.calls(&["LoraConfig"]);
    assert_eq!(found.whole("r").unwrap().value, 64);
    assert_eq!(found.texts("target_modules").unwrap().value, ["q_proj", "v_proj"]);
    assert_eq!(reader.reached(&["PeftModel"]), Some(true), "what is nowhere stands on nothing");
    // What is behind the end of what is read may be made.
    let reader = ScriptReader::new("a.py", "sys.exit(1)\nLoraConfig(r=8)\n", Settings::default());
    assert_eq!(reader.reached(&["LoraConfig"]), None);
    assert_eq!(reader.expression("device_of(x).is_available() and not torch.xpu.is_available()"), Some(true.into()));
}

#[test]
fn ranks_share_what_they_divide() {
    let text = "\
steps = 32
world_size = int(os.environ.get('WORLD_SIZE', 1))
if world_size != 1:
    steps = steps // world_size
TrainingArguments(gradient_accumulation_steps=steps)
";
    let reader = ScriptReader::new("a.py", text, Settings::default());
    let found = reader.calls(&["TrainingArguments"]);
    assert_eq!(found.whole("gradient_accumulation_steps").unwrap().value, 32);
    assert!(reader.divided.get());
}

#[test]
fn options_of_click_and_their_names_are_followed() {
    let text = "\
@click.command()
@click.option('--micro_batch_size', 'micro_batch_size', type=int, default=3)
@click.option('--lora-r', type=int, default=8)
def main(micro_batch_size, lora_r):
    args = locals()
    args = namedtuple('args', tuple(args.keys()))(**args)
    TrainingArguments(per_device_train_batch_size=args.micro_batch_size)
    LoraConfig(r=args.lora_r)

main()
";
    assert_eq!(batch(text, &[]), Some(3));
    assert_eq!(batch(text, &[("micro_batch_size", "7")]), Some(7));
    let reader = ScriptReader::new("a.py", text, Settings::default());
    assert_eq!(reader.calls(&["LoraConfig"]).whole("r").unwrap().value, 8);
    assert!(reader.asked.get());
}

#[test]
fn classes_that_inherit_are_what_they_inherit_from() {
    let text = "\
from trl import SFTConfig as Base
class Arguments(Base):
    pass
args = Arguments(output_dir='x', per_device_train_batch_size=9)
";
    let reader = ScriptReader::new("a.py", text, Settings::default());
    assert_eq!(reader.calls(&["SFTConfig"]).whole("per_device_train_batch_size").unwrap().value, 9);
}

#[test]
fn texts_and_numbers_come_to_what_python_makes_of_them() {
    let reader = ScriptReader::new("a.py", "name = 'Qwen'\nsize = 7\n", Settings::default());
    let text = |written: &str| reader.expression(written).and_then(|value| value.as_str().map(str::to_owned));
    let number = |written: &str| reader.expression(written).and_then(|value| whole(&value));
    assert_eq!(text("f'{name}/{name}2-{size}B'").as_deref(), Some("Qwen/Qwen2-7B"));
    assert_eq!(text("os.path.join(name, 'x').lower()").as_deref(), Some("qwen/x"));
    assert_eq!(text("'a' if size > 3 and name.startswith('Q') else 'b'").as_deref(), Some("a"));
    assert_eq!(text("torch.bfloat16").as_deref(), Some("bfloat16"));
    // 2^3 x 7 = 56; -7 // 2 = -4 in Python, + 5 = 1.
    assert_eq!(number("2 ** 3 * size"), Some(56));
    assert_eq!(number("-size // 2 + 5"), Some(1));
    assert_eq!(number("max(int('12'), size)"), Some(12));
    assert_eq!(number("len([x for x in ['a', 'b', 'c'] if x != 'b'])"), Some(2));
    assert_eq!(number("unheard_of + 1"), None);
}

#[test]
fn hostile_scripts_come_to_an_end() {
    let deep = format!("x = {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    let chain =
        (0..3_000).map(|at| format!("def f{at}():\n    f{}()\n    f{}()\n", at + 1, at + 1)).collect::<String>();
    let recursive = "def f(n):\n    return f(n) + f(n - 1)\nwhile True:\n    f(3)\n";
    let doubled = (0..40).map(|at| format!("x{} = [x{at}, x{at}]\n", at + 1)).collect::<String>();
    let joined = (0..60).map(|at| format!("y{} = f'{{y{at}}}{{y{at}}}'\n", at + 1)).collect::<String>();
    for text in [
        deep,
        format!("{chain}f0()\n"),
        recursive.to_owned(),
        format!("x0 = []\n{doubled}TrainingArguments(a=x40)\n"),
        format!("y0 = 'ab'\n{joined}TrainingArguments(a=y60)\n"),
    ] {
        let started = std::time::Instant::now();
        ScriptReader::new("a.py", &text, Settings::default()).calls(&["TrainingArguments"]);
        assert!(started.elapsed().as_secs() < 20, "{:.60}", text);
    }
}

#[test]
fn what_a_call_is_handed_leads_to_the_call_that_made_it() {
    let text = "\
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

def load(args):
    config = BitsAndBytesConfig(load_in_4bit=True)
    if args.coarse:
        config = BitsAndBytesConfig(load_in_8bit=True)
    kwargs = {'revision': 'main'}
    if args.quantise:
        kwargs['quantization_config'] = config
    return AutoModelForCausalLM.from_pretrained(args.name, dtype=torch.bfloat16, **kwargs)

load(args)
";
    let passed = |own: &[(&str, &str)], keyword: &str| {
        let reader = ScriptReader::new("train.py", text, given(own));
        reader.passed(&["AutoModelForCausalLM.from_pretrained"], keyword).remove(0)
    };
    let quantised = |own: &[(&str, &str)]| passed(own, "quantization_config").0;
    let PassedArgument::Made(path, told) = quantised(&[("quantise", "True"), ("coarse", "False")]) else {
        panic!("4 bits")
    };
    assert!(path.ends_with("BitsAndBytesConfig") && told.is("load_in_4bit"));
    let PassedArgument::Made(_, told) = quantised(&[("quantise", "True"), ("coarse", "True")]) else {
        panic!("8 bits")
    };
    assert!(told.is("load_in_8bit") && told.get("load_in_4bit").is_none());
    // Which of the two configurations it is, or whether any is handed on, nobody says.
    assert!(matches!(quantised(&[("quantise", "True")]), PassedArgument::Open));
    assert!(matches!(quantised(&[("quantise", "False")]), PassedArgument::Nothing));
    let (PassedArgument::Plain(found), certain) = passed(&[("quantise", "False")], "revision") else {
        panic!("a text")
    };
    assert!(found.value == "main" && certain);
}

#[test]
fn what_arguments_are_set_later_goes_over_what_they_were_made_with() {
    let text = "\
from transformers import TrainingArguments

training_args = TrainingArguments(output_dir='out', per_device_train_batch_size=4, bf16=True, fp16=False)
training_args.per_device_train_batch_size = 2 * 8
if nobody_knows():
    training_args.fp16 = True
";
    assert_eq!(batch(text, &[]), Some(16));
    let reader = ScriptReader::new("train.py", text, Settings::default());
    let found = reader.calls(&["TrainingArguments"]);
    assert_eq!(
        found.whole("per_device_train_batch_size").unwrap().origin.to_string(),
        "train.py:4: per_device_train_batch_size"
    );
    assert!(found.is("bf16") && found.flag("fp16").is_none(), "on a condition that is not followed");
}

#[test]
fn a_new_model_has_the_name_of_a_configuration_that_nothing_changes() {
    let script = |told: &str, later: &str| {
        format!(
            "from transformers import AutoConfig, AutoModelForCausalLM\n\
             config = AutoConfig.from_pretrained('Qwen/Qwen3-8B'{told})\n{later}\n\
             model = AutoModelForCausalLM.from_config(config)\n"
        )
    };
    let named = |told: &str, later: &str| {
        let text = script(told, later);
        let reader = ScriptReader::new("train.py", &text, Settings::default());
        made_anew(&reader).text("0").map(|found| found.value)
    };
    assert_eq!(named(", use_cache=False", ""), Some("Qwen/Qwen3-8B".to_owned()));
    assert_eq!(named(", num_hidden_layers=4", ""), None);
    assert_eq!(named("", "config.num_hidden_layers = 4"), None);
}

#[test]
fn a_call_is_reached_where_every_branch_around_it_is() {
    let text = "def main(args):\n    if args.use_lora:\n        model = get_peft_model(\n            model,\n        )\n    elif args.budget < 1:\n        model.checkpoint()\n    else:\n        model.plain()\n\nmain(args)\n";
    let read = |own: &[(&str, &str)], name: &str| ScriptReader::new("train.py", text, given(own)).reached(&[name]);
    let told = [("use_lora", "False"), ("budget", "0.5")];
    assert_eq!(read(&told, "get_peft_model"), Some(false));
    assert_eq!(read(&told, "checkpoint"), Some(true));
    assert_eq!(read(&told, "plain"), Some(false));
    assert_eq!(read(&[], "get_peft_model"), None);
}

#[test]
fn weights_are_frozen_where_the_script_does_it() {
    let frozen = |text: &str, own: &[(&str, &str)]| ScriptReader::new("train.py", text, given(own)).freezes();
    let asked = "def main(args):\n    if args.freeze:\n        for p in model.parameters():\n            p.requires_grad = False\nmain(args)\n";
    assert!(frozen(asked, &[("freeze", "True")]));
    assert!(!frozen(asked, &[("freeze", "False")]));
    assert!(frozen(asked, &[]), "it may be");
    // Computed, and by a function that is told so.
    assert!(frozen("for n, p in model.named_parameters():\n    p.requires_grad = 'head' in n\n", &[]));
    assert!(frozen("model.vision.requires_grad_(False)\n", &[]));
    assert!(!frozen("model.requires_grad_(True)\nmodel.requires_grad_()\np.requires_grad = True\n", &[]));
}

#[test]
fn what_a_script_sets_of_parsed_arguments_is_read() {
    let text = "\
parser = HfArgumentParser((ModelArguments, TrainingArguments))
model_args, training_args = parser.parse_args_into_dataclasses()
training_args.fp16 = True
if model_args.small:
    training_args.optim = 'adafactor'
if unknown():
    training_args.bf16 = True
trainer = Trainer(model=model, args=training_args)
";
    let read = |own: &[(&str, &str)]| ScriptReader::new("train.py", text, given(own)).set_afterwards(|_| true);
    let found = read(&[("small", "True")]);
    assert!(found.is("fp16"));
    assert_eq!(found.text("optim").unwrap().value, "adafactor");
    assert_eq!(found.get("bf16").unwrap().value, "?", "on a condition that is not followed");
    assert!(read(&[("small", "False")]).get("optim").is_none());
}

#[test]
fn dictionaries_are_filtered() {
    let text = "\
from transformers import TrainingArguments
settings = {'per_device_train_batch_size': 4, 'dataset': 'a', 'unknown': 1}
own = {key: value for key, value in settings.items() if key not in ('dataset', 'unknown')}
TrainingArguments(**own)
";
    assert_eq!(batch(text, &[]), Some(4));
    // What may be left out is not known.
    let asked = text.replace("not in ('dataset', 'unknown')", "in names_of_arguments()");
    assert_eq!(batch(&asked, &[]), None);
}
