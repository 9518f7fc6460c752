//! Examples of each command: the end of its `--help` and of its man page. A test reads each as a command line.

use std::fmt::Write as _;

/// What is asked, and the command.
type Example = (&'static str, &'static str);

const EXAMPLES: [(&str, &[Example]); 27] = [
    (
        "predict",
        &[
            ("Does this plan fit, and how fast is it?", "memwall predict plan.yaml"),
            ("What would make it fit?", "memwall predict --bottlenecks plan.yaml"),
            (
                "A model of the catalogue, for answers",
                "memwall predict llama-3-8b --inference --context 32768 --batch 8",
            ),
        ],
    ),
    (
        "sweep",
        &[
            ("Where do memory and throughput end?", "memwall sweep plan.yaml --vary batch_size=1..64x2"),
            (
                "Two keys, every combination",
                "memwall sweep plan.yaml --vary batch_size=8,16 --vary precision=bf16,fp32",
            ),
            ("The same as a plot", "memwall sweep plan.yaml --vary batch_size=1..64x2 -o sweep.svg"),
        ],
    ),
    (
        "search",
        &[
            ("The fastest plans of this model on this cluster", "memwall search plan.yaml"),
            ("The fewest GPUs that hold it", "memwall search plan.yaml --fewest-gpus"),
            ("For programs", "memwall search plan.yaml --format json"),
        ],
    ),
    (
        "roofline",
        &[
            ("Which operators are slow, and why?", "memwall roofline plan.yaml"),
            ("An operator of your own on a GPU", "memwall roofline --gpu-type 'RTX 4090' --op mine=1.2e12:3e9"),
            ("A picture for a paper", "memwall roofline plan.yaml -o roofline.pdf"),
        ],
    ),
    (
        "validate",
        &[
            ("Cases that you measured", "memwall validate cases.json"),
            ("A plot of predicted against measured", "memwall validate cases.json -o cases.svg"),
            ("The catalogue against PyTorch itself", "memwall validate --traced config.json --python venv/bin/python"),
        ],
    ),
    (
        "infer",
        &[
            ("The plan of a running process", "memwall infer 4711"),
            ("Of a job's file, kept", "memwall infer train.sbatch --save plan.yaml"),
            ("Of a job that Slurm runs", "scontrol show job 815 | memwall infer -"),
        ],
    ),
    (
        "new",
        &[
            ("A plan of a model", "memwall new llama-3-8b --save plan.yaml"),
            ("For another GPU, and eight of them", "memwall new qwen2.5-7b --gpu-type 'NVIDIA H100' --gpus 8"),
            ("Of a configuration", "memwall new config.json --save plan.yaml"),
        ],
    ),
    (
        "config",
        &[
            ("What is set, and who says it?", "memwall config"),
            ("A file with every option to begin with", "memwall config --example > ~/.config/memwall/config.yaml"),
            ("The options alone", "memwall config --example | grep '^#[a-z]'"),
        ],
    ),
    (
        "import",
        &[
            ("The plan of a script", "memwall import train.sh"),
            ("Of a tool's file, kept", "memwall import axolotl.yaml --save plan.yaml"),
            ("Of a command as you type it", "memwall import -- torchrun --nproc-per-node 8 train.py --bf16"),
        ],
    ),
    (
        "export",
        &[
            ("Megatron's arguments", "memwall export plan.yaml --to megatron"),
            ("A DeepSpeed file", "memwall export plan.yaml --to deepspeed -o ds.json"),
            ("torchtitan's configuration", "memwall export plan.yaml --to torchtitan -o train.toml"),
        ],
    ),
    (
        "record",
        &[
            ("Until Ctrl-C", "memwall record -o run.ndjson.gz"),
            (
                "A process beside its plan, for an hour",
                "memwall record plan.yaml --attach 4711 --duration 1h -o run.gz",
            ),
            ("For days, the newest files alone", "memwall record --rotate 100MB --keep 10 -o run.gz"),
        ],
    ),
    (
        "exporter",
        &[
            ("The GPUs of this machine", "memwall exporter"),
            ("A run beside its plan, for all addresses", "memwall exporter plan.yaml --listen 0.0.0.0:9877"),
            ("The alerting rules", "memwall exporter --print rules > memwall.rules.yml"),
        ],
    ),
    (
        "replay",
        &[
            ("In the dashboard, ten times as fast", "memwall replay run.ndjson.gz --speed 10"),
            ("A summary", "memwall replay run.ndjson.gz --format text"),
            ("Memory against the plan's, as a plot", "memwall replay run.ndjson.gz -o memory.svg"),
        ],
    ),
    (
        "gpus",
        &[
            ("All that plans can name", "memwall gpus"),
            ("Those of one kind, and where each value comes from", "memwall gpus h100 --verbose"),
            ("For programs", "memwall gpus --format json"),
        ],
    ),
    (
        "models",
        &[
            ("Those of one family", "memwall models llama-3"),
            ("Which can I train with adapters?", "memwall models --fit 'RTX 4090'"),
            ("How many GPUs does which scale need to answer?", "memwall models --scales 'NVIDIA H100'"),
        ],
    ),
    (
        "run",
        &[
            ("Steps and memory of a training", "memwall run -- python train.py"),
            ("Beside its plan", "memwall run --plan plan.yaml -- torchrun --nproc-per-node 8 train.py"),
            ("A tape of its third step", "memwall run --trace run.tape.json.gz -- python train.py"),
        ],
    ),
    (
        "explain",
        &[
            ("Why was memory exhausted?", "memwall explain train.log --plan plan.yaml"),
            ("What does a word mean?", "memwall explain ridge --plan plan.yaml"),
            ("What holds the memory of a snapshot?", "memwall explain snapshot.pickle"),
        ],
    ),
    (
        "tutorial",
        &[
            ("In this terminal's colours", "memwall tutorial"),
            ("In another theme", "memwall tutorial --theme light"),
            ("Where only ASCII can be shown", "memwall tutorial --ascii --no-color"),
        ],
    ),
    (
        "trace",
        &[
            ("A Hugging Face model", "memwall trace --hf config.json -o my.tape.json.gz"),
            (
                "A model of your own",
                "memwall trace model.py:make_model --input 'input_ids=int64[B,S]' --loss output.loss",
            ),
            ("A script as it is", "memwall trace -- python train.py --batch-size 4"),
        ],
    ),
    (
        "bench",
        &[
            ("The GPU of this machine", "memwall bench"),
            ("Its CPU", "memwall bench --cpu"),
            ("Links among eight GPUs as well", "memwall bench --ranks 8 --time 2m"),
        ],
    ),
    (
        "hook",
        &[
            ("Beside a script that is not started here", "memwall hook > memwall_hook.py"),
            ("What it does", "memwall help hook"),
            ("Without changing the script", "memwall run -- python train.py"),
        ],
    ),
    (
        "completions",
        &[
            ("bash", "memwall completions bash > ~/.local/share/bash-completion/completions/memwall"),
            ("zsh", "memwall completions zsh > ~/.zfunc/_memwall"),
            ("fish", "memwall completions fish > ~/.config/fish/completions/memwall.fish"),
        ],
    ),
    (
        "man",
        &[
            ("The program's page", "memwall man | man -l -"),
            ("A command's", "memwall man predict | man -l -"),
            ("All of them", "memwall man -o ~/.local/share/man/man1"),
        ],
    ),
    (
        "python",
        &[
            ("The client, beside your script", "memwall python > memwall.py"),
            ("How to use it", "memwall help library"),
            ("One plan without it", "memwall predict plan.yaml --format json"),
        ],
    ),
    (
        "schema",
        &[
            ("For completion in an editor", "memwall schema plan > plan.schema.json"),
            ("Of reports", "memwall schema report"),
            ("Of measured cases", "memwall schema cases"),
        ],
    ),
    (
        "doctor",
        &[
            ("What works here?", "memwall doctor"),
            ("Why are readings absent?", "memwall help nvml"),
            ("What the dashboard would show now", "memwall --once"),
        ],
    ),
    (
        "help",
        &[
            ("The topics", "memwall help"),
            ("One of them", "memwall help plan"),
            ("What a command takes", "memwall help predict"),
        ],
    ),
];

/// The command line's definition with the examples of each command.
pub fn added(program: clap::Command) -> clap::Command {
    EXAMPLES.iter().fold(program, |program, (name, examples)| {
        program.mut_subcommand(name, |command| command.after_long_help(text(examples)))
    })
}

fn text(examples: &[Example]) -> String {
    let mut text = "Examples:".to_owned();
    for (what, command) in examples {
        let _ = write!(text, "\n  # {what}\n  {command}\n");
    }
    text.trim_end().to_owned()
}

/// What people come to ask, each with the command that answers it: the end of `memwall --help`.
const QUESTIONS: [(&str, &str); 10] = [
    ("Does it fit? How fast is it?", "predict plan.yaml"),
    ("What would make it fit?", "predict --bottlenecks plan.yaml"),
    ("What is the largest batch?", "predict --max-batch-size plan.yaml"),
    ("Where are the walls?", "sweep plan.yaml --vary batch_size=1..64x2"),
    ("What is the best plan?", "search plan.yaml"),
    ("Which operators are slow?", "roofline plan.yaml"),
    ("How do I begin a plan?", "new llama-3-8b --save mine.yaml"),
    ("Which plan has this script?", "import train.sh"),
    ("Why was memory exhausted?", "explain train.log --plan plan.yaml"),
    ("What does a word mean?", "explain ridge --plan plan.yaml"),
];

/// The questions in two columns with their commands, and where more is said.
pub fn questions() -> String {
    let line = |(question, command): &(&str, &str)| format!("  {question:28} memwall {command}\n");
    let lines: String = QUESTIONS.iter().map(line).collect();
    format!("Questions:\n{lines}\n`memwall plan.yaml` opens the dashboard. `memwall help` lists the topics.")
}
