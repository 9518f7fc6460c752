//! Files of other tools opened and written, and what becomes of files that are in the way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::plan::PLAN;
use crate::terminal::{Program, Terminal, keys};

/// A script as one finds it beside Megatron-LM, `pretrain_gpt.py`'s arguments in it.
const SCRIPT: &str = "#!/bin/bash
GPUS=8
torchrun --nproc_per_node $GPUS pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \\
    --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 --global-batch-size 64 \\
    --tensor-model-parallel-size 2 --bf16 --train-iters 1000 --vocab-size 50257
";

const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048,
 "intermediate_size": 8192, "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
 "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": true}"#;

const DEEPSPEED: &str = r#"{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4,
 "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}"#;

const TITAN: &str = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 4096\n";

fn read(terminal: &Terminal, name: &str) -> String {
    fs::read_to_string(terminal.folder().join(name)).unwrap()
}

fn open(program: Program) -> Terminal {
    let terminal = program.file("mine.yaml", PLAN).args(&["mine.yaml"]).start();
    terminal.wait_for("demo");
    terminal
}

/// Another batch, so that there is something to save.
fn edit(terminal: &mut Terminal) {
    terminal.keys(&keys::DOWN.repeat(6));
    terminal.keys(keys::RIGHT);
    terminal.wait_for("4096");
}

/// Saves as that file.
fn save_as(terminal: &mut Terminal, name: &str) {
    terminal.keys("S");
    terminal.wait_for("save as");
    terminal.keys(name);
    terminal.keys(keys::ENTER);
}

#[test]
fn other_tools_files_are_opened_as_plans_and_saved_beside_them() {
    for (name, text, tool, said, saved) in [
        ("train.sh", SCRIPT, "Megatron-LM", "tensor_parallel: 2", "train.yaml"),
        ("run.toml", TITAN, "torchtitan", "preset: llama-3.1-8b", "run.yaml"),
    ] {
        let mut terminal = Program::memwall().file(name, text).args(&[name]).start();
        let screen = terminal.wait_for("read as a plan");
        assert!(screen.contains(&format!("{tool}: {name}")) && screen.contains("not found, or not"), "{screen}");
        terminal.keys(keys::ESC);
        let screen = terminal.wait_for("an unsaved plan");
        assert!(screen.contains("device-used"), "{screen}");
        terminal.keys("1ss");
        terminal.wait_for(&format!("saved {saved}"));
        assert!(read(&terminal, saved).contains(said), "{}", read(&terminal, saved));
        assert_eq!(read(&terminal, name), text, "the other tool's file stays");
        terminal.keys("q");
        terminal.assert_left_well();
    }
}

#[test]
fn a_file_that_names_no_model_waits_for_one() {
    let mut terminal = Program::memwall().file("ds.json", DEEPSPEED).args(&["ds.json"]).start();
    terminal.wait_for("read as a plan");
    terminal.keys(keys::ESC);
    let screen = terminal.wait_for("an unsaved plan");
    assert!(screen.contains("no model yet") && !screen.contains("device-used"), "a figure of which model?\n{screen}");
    // The name takes the place of the mark.
    terminal.keys("llama-2-7b");
    terminal.wait_for("device-used");
    terminal.keys(keys::ESC);
    terminal.wait_for("‹ llama-2-7b ›");
    terminal.keys("ss");
    terminal.wait_for("saved ds.yaml");
    let saved = read(&terminal, "ds.yaml");
    // 64 / 4 / 2: DeepSpeed refuses any other number of ranks.
    assert!(saved.contains("preset: llama-2-7b ") && saved.contains("data_parallel: 8"), "{saved}");
    assert_eq!(read(&terminal, "ds.json"), DEEPSPEED, "the other tool's file stays");
}

#[test]
fn the_open_dialog_lists_other_tools_files_and_opens_them_beside_the_plan() {
    let program = Program::memwall().file("ds.json", DEEPSPEED).file("notes.json", "{\"a\": 1}").file("x.sh", "ls\n");
    fs::create_dir(program.folder().join("llama-small")).unwrap();
    let mut terminal = open(program.file("llama-small/config.json", CONFIG));
    terminal.keys("o");
    let screen = terminal.wait_for("Hugging Face, read as a plan");
    assert!(screen.contains("DeepSpeed, read as a plan"), "{screen}");
    assert!(!screen.contains("notes.json") && !screen.contains("x.sh"), "what spells no plan:\n{screen}");
    terminal.keys("small");
    terminal.wait_without("DeepSpeed");
    terminal.keys(keys::ENTER);
    terminal.wait_for("config.json read as a plan");
    terminal.keys(keys::ESC);
    let screen = terminal.wait_for("2 of 2");
    assert!(screen.contains("llama-small"), "{screen}");
    // What is nothing at all is said, and the plan stays.
    terminal.keys("o");
    terminal.wait_for("open a plan");
    terminal.keys("./x.sh");
    terminal.keys(keys::ENTER);
    terminal.wait_for("no training command in it");
}

#[test]
fn a_plan_is_exported_as_the_command_line_does() {
    let mut terminal = open(Program::memwall());
    for (target, file) in [
        ("megatron", "mine.megatron.args"),
        ("torchrun", "mine.torchrun.sh"),
        ("deepspeed", "mine.deepspeed.json"),
        ("torchtitan", "mine.torchtitan.toml"),
    ] {
        terminal.keys("E");
        terminal.wait_for("export the plan as");
        terminal.keys(target);
        terminal.keys(keys::ENTER);
        terminal.wait_for("s writes it");
        terminal.keys("s");
        terminal.wait_for(&format!("exported {file}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        let command = command.current_dir(terminal.folder()).args(["export", "mine.yaml", "--to", target]);
        let expected = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(read(&terminal, file), expected);
    }
    // The plan itself is as it was, and an export is no save.
    assert_eq!(read(&terminal, "mine.yaml"), PLAN);
    // From the palette, over what is there: shown first, kept unless asked for.
    fs::write(terminal.folder().join("mine.deepspeed.json"), "{\"mine\": 1}\n").unwrap();
    terminal.keys(":");
    terminal.keys("export");
    terminal.keys(keys::ENTER);
    terminal.wait_for("export the plan as");
    terminal.keys("deep");
    terminal.keys(keys::ENTER);
    terminal.wait_for("s writes it");
    terminal.keys("s");
    let screen = terminal.wait_for("It exists already");
    assert!(screen.contains("- {\"mine\": 1}"), "{screen}");
    terminal.keys(keys::ESC);
    terminal.wait_without("It exists already");
    assert_eq!(read(&terminal, "mine.deepspeed.json"), "{\"mine\": 1}\n");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn saved_as_another_file_the_plan_has_its_name() {
    let mut terminal = open(Program::memwall());
    edit(&mut terminal);
    // The home is the folder here.
    save_as(&mut terminal, "~/night.yaml");
    terminal.wait_for(" saved /");
    let screen = terminal.wait_for("night.yaml");
    assert!(screen.starts_with(" memwall mine "), "the run is compared with its own plan still:\n{screen}");
    assert_eq!(read(&terminal, "night.yaml"), PLAN.replace("2048", "4096"));
    assert_eq!(read(&terminal, "mine.yaml"), PLAN);
    // From now on it is saved there.
    terminal.keys(keys::LEFT);
    terminal.wait_until("another text", |screen| screen.contains("· uns"));
    terminal.keys("ss");
    terminal.wait_until("no other text", |screen| !screen.contains("· uns"));
    assert_eq!(read(&terminal, "night.yaml"), PLAN);
}

#[test]
fn another_file_is_shown_before_it_is_written_over() {
    let mut terminal = open(Program::memwall().file("other.yaml", "# theirs\nmodel: {}\n"));
    edit(&mut terminal);
    save_as(&mut terminal, "other.yaml");
    let screen = terminal.wait_for("It exists already");
    assert!(screen.contains("- # theirs") && screen.contains("+   sequence_length: 4096"), "{screen}");
    terminal.keys(keys::ESC);
    terminal.wait_without("It exists already");
    assert_eq!(read(&terminal, "other.yaml"), "# theirs\nmodel: {}\n");
    save_as(&mut terminal, "other.yaml");
    terminal.wait_for("It exists already");
    terminal.keys("o");
    terminal.wait_for("saved other.yaml");
    assert_eq!(read(&terminal, "other.yaml"), PLAN.replace("2048", "4096"));
}

#[test]
fn what_cannot_be_written_is_said_and_nothing_is_lost() {
    let program = Program::memwall();
    fs::create_dir(program.folder().join("folder")).unwrap();
    let mut terminal = open(program);
    fs::set_permissions(terminal.folder().join("mine.yaml"), fs::Permissions::from_mode(0o444)).unwrap();
    edit(&mut terminal);
    terminal.keys("ss");
    let screen = terminal.wait_for("not saved: ");
    assert!(screen.contains("mine.yaml") && screen.contains("read-only"), "{screen}");
    assert!(screen.contains("S saves it elsewhere"), "{screen}");
    assert_eq!(read(&terminal, "mine.yaml"), PLAN);
    for (place, why) in [("folder", "directory"), ("/dev/full", "not a file"), ("no/such/folder/x.yaml", "no such")] {
        save_as(&mut terminal, place);
        let screen = terminal.wait_until("the reason", |screen| screen.contains("not saved: ") && screen.contains(why));
        assert!(screen.contains("4096"), "{screen}");
        terminal.keys("1");
        terminal.wait_without("not saved: ");
    }
    save_as(&mut terminal, "folder/new.yaml");
    terminal.wait_for("saved folder/new.yaml");
    assert_eq!(read(&terminal, "folder/new.yaml"), PLAN.replace("2048", "4096"));
}

#[test]
fn paths_are_completed_by_tab() {
    let program = Program::memwall();
    fs::create_dir(program.folder().join("plans-of-may")).unwrap();
    let mut terminal = open(program.file("plans-of-may/first.yaml", PLAN).file("plans-of-may/fourth.yaml", PLAN));
    terminal.keys("o");
    terminal.wait_for("open a plan");
    terminal.keys("./pl\t");
    terminal.wait_for("> ./plans-of-may/");
    terminal.keys("f\t");
    let screen = terminal.wait_for("./plans-of-may/fourth.yaml");
    assert!(screen.contains("./plans-of-may/first.yaml"), "{screen}");
    terminal.keys("o\t");
    terminal.wait_for("> ./plans-of-may/fourth.yaml");
    terminal.keys(keys::ENTER);
    terminal.wait_until("it is open", |screen| screen.contains("fourth") && screen.contains("2 of 2"));
}
