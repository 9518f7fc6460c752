//! What the hook counts of a step and of a model: passes, parameters that two modules share, a model that is compiled.

use std::process::Stdio;

use memwall::reading::HookedRun;

use super::{Meeting, hear, python, text};

/// What `train_passes.py` tells once it is as wanted.
fn told(meeting: &Meeting, python: &std::ffi::OsString, how: &str, wanted: impl Fn(&HookedRun) -> bool) -> HookedRun {
    let mut listener = meeting.listen();
    let mut command = meeting.run(python, "train_passes.py", &["100", how]);
    let child = command.env_remove("PYTHONPATH").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let heard = hear(&mut listener, how, wanted);
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    heard
}

/// Two passes of 3 x 5 ids are 30 tokens: neither labels nor a pass that is computed again are more of them. The
/// embedding's 20 x 8 parameters are the head's too and counted once, beside the block's 8 x 8 + 8 and 8 x 2 of a layer
/// that never runs.
#[test]
fn a_pass_counts_once_and_so_does_a_shared_parameter() {
    let Some(python) = python("import torch.utils.checkpoint") else { return };
    let meeting = Meeting::new();
    let run = told(&meeting, &python, "plain", |run| {
        run.modules.is_some() && run.step.as_ref().is_some_and(|step| step.tokens.is_some())
    });
    assert_eq!(run.step.unwrap().tokens, Some(30));
    let about = run.about.unwrap();
    assert_eq!((about.params, about.trainable, about.model.as_deref()), (248, 88, Some("Language")));
    // No module says so: it runs again, which PyTorch before 2.0 does not tell.
    let tells = super::python("import torch; torch._C._current_graph_task_id").is_some();
    assert_eq!(about.checkpointed, tells.then_some(true));
    let modules = run.modules.unwrap();
    assert_eq!(modules.passes, Some(2));
    let kinds = modules.kinds;
    let params: Vec<(&str, u64)> = ["embed", "block", "head", "spare"]
        .map(|name| (name, kinds.iter().find(|kind| kind.name == name).unwrap().params))
        .into();
    assert_eq!(params, [("embed", 160), ("block", 72), ("head", 0), ("spare", 16)]);
}

/// CleanRL's agents hold an actor and a critic that the script calls itself: the larger is not the model. The optimizer
/// trains 72 of the one's 248 parameters with the other's 160.
#[test]
fn what_one_optimizer_trains_in_several_parts_is_counted_together() {
    let Some(python) = python("import torch.utils.checkpoint") else { return };
    let meeting = Meeting::new();
    let run = told(&meeting, &python, "parts", |run| run.modules.is_some() && run.about.is_some());
    let about = run.about.unwrap();
    assert_eq!((about.params, about.trainable, about.params_are_all), (408, 248, true));
    assert_eq!(about.model, None);
}

/// Of a generator and its critic nobody knows for which of both the model's passes were. The critic has 8 x 20 parameters.
#[test]
fn passes_of_a_model_are_not_counted_beside_a_second_optimizer() {
    let Some(python) = python("import torch.utils.checkpoint") else { return };
    let meeting = Meeting::new();
    let run = told(&meeting, &python, "rivals", |run| run.modules.is_some() && run.about.is_some());
    assert_eq!(run.modules.unwrap().passes, None);
    assert_eq!(run.about.unwrap().beside, Some(("AdamW".to_owned(), 160)));
}

/// Modules of a compiled model are not looked into, which would compile it again; its class and its count are known.
#[test]
fn a_compiled_model_has_its_name() {
    let Some(python) = python("import torch._dynamo") else { return };
    let meeting = Meeting::new();
    let run = told(&meeting, &python, "compiled", |run| run.about.is_some() && run.step.is_some());
    let about = run.about.unwrap();
    assert_eq!((about.params, about.trainable, about.params_are_all), (248, 88, true));
    assert_eq!(about.model.as_deref(), Some("Language"));
    assert!(about.no_modules.is_some());
}
