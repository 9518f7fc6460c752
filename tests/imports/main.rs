//! Training commands of every framework as plans. A case names where its command and its
//! settings stand, and what they mean by that framework's own documentation; files hold only
//! the keys that decide something.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod corpus;
mod drawn;
mod exports;
mod garbage;
mod invalid_plans;
mod round_trip;
mod unknown_names;

use std::collections::BTreeMap;
use std::fs;

use memwall::catalog::Catalog;
use memwall::files::Unread;
use memwall::import::{self, Files, ImportedPlan, ProcessView};
use serde::Deserialize;
use serde_json::Value;
use support::catalog;

/// Files as a case gives them.
pub struct CaseFiles(pub BTreeMap<String, String>);

impl Files for CaseFiles {
    fn read(&self, path: &str) -> Result<String, Unread> {
        let own = path.strip_prefix("/runs/").unwrap_or(path);
        self.0.get(own).cloned().ok_or_else(|| Unread(format!("{path}: there is no such file")))
    }

    fn absolute(&self, path: &str) -> String {
        format!("/runs/{path}")
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let inside = |path: &String| {
            let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
            (above == folder).then(|| name.to_owned())
        };
        self.0.keys().filter_map(inside).collect()
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Repository and path.
    source: String,
    tool: String,
    /// A command, words separated by blanks; or the name of one of `files`.
    command: Option<String>,
    file: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    ancestors: Vec<String>,
    /// Libraries of its environment.
    #[serde(default)]
    versions: BTreeMap<String, String>,
    #[serde(default)]
    gpus: Vec<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    expect: BTreeMap<String, Value>,
    /// Keys that nobody tells.
    #[serde(default)]
    missing: Vec<String>,
    /// Keys that must have no value.
    #[serde(default)]
    absent: Vec<String>,
    /// Parts of what must be said beside.
    #[serde(default)]
    notes: Vec<String>,
    /// Parts of what would be said of others.
    #[serde(default)]
    unsaid: Vec<String>,
    /// Which of several trainings is meant.
    which: Option<usize>,
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn imported(case: &Case, catalog: &Catalog) -> ImportedPlan {
    read(case, catalog).unwrap()
}

/// The cases by the names of their files.
fn cases() -> Vec<(String, Case)> {
    let mut paths: Vec<_> = fs::read_dir("tests/imports/cases").unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 20, "only {} cases", paths.len());
    let read = |path: &std::path::PathBuf| {
        let name = path.display().to_string();
        let case = serde_yaml::from_str(&fs::read_to_string(path).unwrap());
        (name.clone(), case.unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    paths.iter().map(read).collect()
}

fn read(case: &Case, catalog: &Catalog) -> Result<ImportedPlan, import::Refused> {
    let files = CaseFiles(case.files.clone());
    let run = ProcessView {
        command: case.command.as_deref().map(words).unwrap_or_default(),
        variables: case.environment.clone(),
        ancestors: case.ancestors.iter().map(|line| words(line)).collect(),
        gpus: case.gpus.clone(),
        withheld: false,
        world: None,
        which: case.which,
        versions: case.versions.clone(),
        files: &files,
    };
    match &case.file {
        Some(name) => import::file(name, &case.files[name], &run, catalog),
        None => Ok(import::run(&run, catalog)),
    }
}

/// What is wrong with what was read.
fn faults(case: &Case, imported: &ImportedPlan) -> Vec<String> {
    let mut faults = Vec::new();
    if imported.tool != case.tool {
        faults.push(format!("read as {}", imported.tool));
    }
    for (key, value) in &case.expect {
        match imported.get(key) {
            Some(found) if same(&found.value, value) => {}
            Some(found) => faults.push(format!("{key}: {} ({}) instead of {value}", found.value, found.origin)),
            None => faults.push(format!("{key}: nothing instead of {value}; {:?}", imported.notes)),
        }
    }
    for key in &case.missing {
        if !imported.missing.iter().any(|missing| missing.key == key) {
            faults.push(format!("{key}: not said to be missing"));
        }
    }
    for key in &case.absent {
        if let Some(found) = imported.get(key) {
            faults.push(format!("{key}: {} ({})", found.value, found.origin));
        }
    }
    for said in &case.notes {
        if !imported.notes.iter().any(|note| note.contains(said)) {
            faults.push(format!("not said: {said}; {:?}", imported.notes));
        }
    }
    for said in &case.unsaid {
        if imported.notes.iter().any(|note| note.contains(said)) {
            faults.push(format!("said: {said}; {:?}", imported.notes));
        }
    }
    if let Err(why) = imported.plan() {
        faults.push(format!("no plan: {why:?}"));
    }
    faults
}

fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| (a - b).abs() <= 1e-9 * b.abs())
}

#[test]
fn commands_and_files_of_every_framework_mean_what_they_mean_there() {
    let mut wrong = Vec::new();
    for (path, case) in cases() {
        assert!(case.source.contains('/'), "{path}: no source");
        let imported = imported(&case, catalog());
        let found = faults(&case, &imported);
        if !found.is_empty() {
            wrong.push(format!("{path} ({}):\n  {}", case.source, found.join("\n  ")));
        }
        // What is written reads back as the same plan.
        let written = imported.yaml("x");
        let read = memwall::plan::Document::parse(&written).unwrap_or_else(|why| panic!("{why:?}\n{written}"));
        let plan = imported.plan().map(|mut plan| {
            // Where no model is known, that is said in its place.
            if imported.names_no_model().is_some() && !imported.values.is_empty() {
                plan.model.preset = Some("unknown".to_owned());
            }
            plan
        });
        assert_eq!(read.plan(), plan, "{path}\n{written}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What trains nothing, or is nobody's, is refused, whatever options it shares with tools that train.
#[test]
fn what_no_tool_is_known_by_is_refused() {
    let files = CaseFiles(BTreeMap::new());
    let run = ProcessView::of(Vec::new(), &files);
    for (name, text) in [
        ("install.sh", "#!/bin/bash\npip install -e .\npython setup.py install --prefix /usr\n"),
        ("eval.sh", "python eval/run_eval.py --model_name_or_path meta-llama/Llama-2-7b-hf --max_length 512\n"),
        ("serve.sh", "python -m vllm.entrypoints.api_server --model_name_or_path x --tensor-parallel-size 8\n"),
        ("export.sh", "llamafactory-cli export --model_name_or_path x --finetuning_type lora\n"),
        (
            "generate.sh",
            "python qlora.py --model_name_or_path EleutherAI/pythia-12b --do_train False --do_predict True\n",
        ),
        (
            "zeroshot.sh",
            "python -m torch.distributed.launch --nproc_per_node 8 ./tasks/main.py --task LAMBADA --num-layers 24 \
             --hidden-size 1024 --num-attention-heads 16 --batch-size 8 --tensor-model-parallel-size 1\n",
        ),
        (
            "generation.sh",
            "torchrun --nproc_per_node 8 run_text_generation.py --num-layers 32 --hidden-size 4096 \
             --num-attention-heads 32 --micro-batch-size 1 --tensor-model-parallel-size 4\n",
        ),
        ("chat.sh", "deepspeed examples/vis_chatbot.py --deepspeed ds.json --model_name_or_path x --task vqa\n"),
        (
            "finetune.yaml",
            "global_train_batch_size: 32\ndevice_train_microbatch_size: auto\nmodel: {name: CompVis/stable-diffusion-v1-4}\n",
        ),
        ("own.sh", "torchrun --nproc_per_node=8 my_own.py --epochs 3\n"),
        // lit-llama has names of nanoGPT's in a script of its own (AnesBenmerzoug/lit-llama, finetune_lora.py).
        (
            "finetune_lora.py",
            "import lightning as L\nfrom lit_llama.model import LLaMA\neval_interval = 10\nbatch_size = 128\n\
             gradient_accumulation_steps = 32\nmax_iters = 50000\nblock_size = 256\nlora_r = 8\ndef main():\n    train()\n",
        ),
        // Others say how they train as LLaMA-Factory does (JasonCZH4/bumblecore, configs/dpo/dpo_lora.yaml).
        (
            "dpo_lora.yaml",
            "training_stage: dpo\nfinetuning_type: lora\nmodel_name_or_path: x\ncutoff_len: 1024\nlora_rank: 64\n\
             train_micro_batch_size_per_gpu: 4\ntrain_model_precision: bf16\n",
        ),
        // LLaMA-Factory's names train nothing where they only predict (chenlong164/PEIT, PEIT-LLM/llama3_lora_predict.yaml).
        (
            "predict.yaml",
            "model_name_or_path: x\nadapter_name_or_path: y\nstage: sft\ndo_predict: true\nfinetuning_type: lora\n\
             template: llama3\ncutoff_len: 1024\n",
        ),
        ("convert.sh", "python torchtitan/scripts/convert.py --input a --output b\n"),
        ("config.yaml", "model: resnet\ndata: x\nepochs: 3\n"),
        (
            "embeddings.sh",
            "python tools/create_doc_index.py --num-layers 12 --hidden-size 768 --num-attention-heads 12 \
             --tensor-model-parallel-size 1 --micro-batch-size 128 --vocab-file bert-vocab.txt --fp16\n",
        ),
        ("edit.yaml", "alg_name: MEND\nmodel_name: llama-2-7b\nmodel_class: LlamaForCausalLM\nbatch_size: 1\n"),
        ("merge.yaml", "base_model: x\nmodels: [a, b]\nmerge_method: ties\ndatasets: none\n"),
        // torchtune generates by it (khalidsaifullaah/torchtune, recipes/configs/lora_generation.yaml).
        (
            "lora_generation.yaml",
            "model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b, lora_rank: 16}\nbatch_size: 2\ndtype: bf16\n\
             dataset: {_component_: torchtune.datasets.instruct_dataset}\nmax_new_tokens: 1000\nquantizer: null\n",
        ),
    ] {
        let refused = import::file(name, text, &run, catalog()).map(|imported| imported.tool);
        assert!(matches!(refused, Err(import::Refused::NoTool(_))), "{name}: {refused:?}");
    }
    let plan = "model: {preset: gpt2}\ncluster: {num_gpus: 2}\n";
    assert!(matches!(import::file("p.yaml", plan, &run, catalog()), Err(import::Refused::Plan(_))));
}

/// What is trained otherwise than prediction counts is said first, however long the rest of a command is.
#[test]
fn what_prediction_does_not_follow_is_said() {
    let files = CaseFiles(BTreeMap::new());
    let run = ProcessView::of(Vec::new(), &files);
    for (text, said) in [
        // OpenGVLab/InternVL internvl_chat/shell/internvl1.5/2nd_finetune
        (
            "torchrun --nproc_per_node 2 finetune.py --model_name_or_path a/b-7b --freeze_llm True --freeze_mlp False \
             --use_llm_lora 16 --per_device_train_batch_size 2",
            "not modelled: --freeze_llm, --use_llm_lora",
        ),
        ("python examples/dpov2_train.py --model_name_or_path a/b-2b --per_device_train_batch_size 4", "DPO"),
        ("python run_clm.py --model_name_or_path a/b-2b --per_device_train_batch_size 4 --use_dora True", "DoRA"),
    ] {
        let imported = import::file("a.sh", text, &run, catalog()).unwrap();
        assert!(imported.notes.iter().any(|note| note.contains(said)), "{text}\n{:?}", imported.notes);
    }
    let text = "for lr in 1e-4 3e-4; do\n  $LAUNCHER python run_clm.py --model_name_or_path gpt2 --learning_rate $lr $EXTRA\ndone\n";
    let imported = import::file("a.sh", text, &run, catalog()).unwrap();
    assert!(imported.notes.iter().any(|note| note.contains("$LAUNCHER, $EXTRA")), "{:?}", imported.notes);
    // A launcher may stand in front: how many processes there are is not known.
    assert!(imported.get("cluster.num_gpus").is_none());
}

/// Of several trainings one has to be chosen.
#[test]
fn of_several_trainings_one_is_chosen() {
    let files = CaseFiles(BTreeMap::new());
    let mut run = ProcessView::of(Vec::new(), &files);
    let text = "python run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4\n\
                python run_clm.py --model_name_or_path gpt2-xl --per_device_train_batch_size 1\n\
                python run_eval.py --model_name_or_path gpt2-xl\n";
    let refused = import::file("a.sh", text, &run, catalog());
    assert!(matches!(&refused, Err(import::Refused::Several { commands, .. }) if commands.len() == 2), "{refused:?}");
    run.which = Some(2);
    let chosen = import::file("a.sh", text, &run, catalog()).unwrap();
    assert_eq!(chosen.get("model.preset").unwrap().value, "gpt2-xl");
}

/// What was read and not understood is said, and no default stands in for it.
#[test]
fn what_was_not_understood_is_said() {
    let files = CaseFiles(BTreeMap::new());
    let command = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 \
                   --micro-batch-size many --seq-length 128 --mystery-fusion on --bf16";
    let imported = import::run(&ProcessView::of(words(command), &files), catalog());
    let notes = imported.notes.join("\n");
    assert!(notes.contains("not understood: --micro-batch-size many"), "{notes}");
    assert!(notes.contains("--mystery-fusion"), "{notes}");
    assert!(imported.get("training.micro_batch_size").is_none());
    assert!(imported.missing.iter().any(|missing| missing.key == "training.micro_batch_size"));
}
