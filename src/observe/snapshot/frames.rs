//! What a block was allocated for, by its frames, the innermost first.
//!
//! The rules name functions and files of PyTorch and of the common frameworks. Where the stack has
//! several of them the innermost layer of the training loop counts: an optimizer's step, then a
//! collective, then the backward pass, then a module's forward pass, then a module's making.

use crate::reading::BlockPurpose;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The file's path.
    pub file: String,
    /// The function.
    pub name: String,
    /// The line.
    pub line: u64,
}

impl Frame {
    fn is_in(&self, part: &str) -> bool {
        self.file.contains(part)
    }

    fn is(&self, names: &[&str]) -> bool {
        // Qualified names since Python 3.11 (`Block.forward`), C++ names with their arguments.
        let last = self.name.rsplit(['.', ':']).next().unwrap_or_default();
        names.contains(&last)
    }

    /// Whether it belongs to PyTorch or to Python's own library.
    fn is_library(&self) -> bool {
        ["/torch/", "torch/nn/", "torch/autograd/", "torch/_", "<frozen", "<string>", "??"]
            .iter()
            .any(|part| self.is_in(part))
            || self.file.is_empty()
            || self.is_native()
    }

    /// Whether it is compiled code.
    fn is_native(&self) -> bool {
        self.name.contains("::") || [".cpp", ".cu", ".h", ".so"].iter().any(|end| self.file.ends_with(end))
    }
}

/// What for, and the named term where the frames tell.
pub fn purpose(frames: &[Frame]) -> (BlockPurpose, Option<&'static str>) {
    if frames.is_empty() {
        return (BlockPurpose::Unrecorded, None);
    }
    let any = |rule: fn(&Frame) -> bool| frames.iter().any(rule);
    if any(is_optimizer) {
        // States are made once, in the first step; all else an optimizer allocates it lets go of.
        let makes_states =
            any(|frame| frame.is(&["_init_group", "initialize_state", "init_state", "_init_state", "state_init"]));
        let states = makes_states || !any(|frame| frame.is_in("torch/optim/"));
        return (if states { BlockPurpose::OptimizerStates } else { BlockPurpose::Temporaries }, None);
    }
    if any(is_collective) {
        return (BlockPurpose::CommunicationBuffers, None);
    }
    if any(is_backward) {
        return (BlockPurpose::Gradients, None);
    }
    if any(|frame| frame.is(&["_call_impl", "forward"])) {
        return (BlockPurpose::Activations, part(frames));
    }
    if any(is_making) {
        return (BlockPurpose::Parameters, None);
    }
    if frames.iter().all(Frame::is_native) {
        // The backward pass runs on threads of its own, where no Python is.
        let autograd = any(|frame| frame.name.contains("autograd"));
        return (if autograd { BlockPurpose::Gradients } else { BlockPurpose::Unrecorded }, None);
    }
    (BlockPurpose::Other, None)
}

fn is_optimizer(frame: &Frame) -> bool {
    let files = [
        "torch/optim/",
        "apex/optimizers/",
        "transformer_engine/pytorch/optimizers/",
        "bitsandbytes/optim/",
        "megatron/core/optimizer/",
        "deepspeed/ops/adam/",
        "deepspeed/runtime/bf16_optimizer",
        "deepspeed/runtime/fp16/",
        "torchao/optim/",
    ];
    files.iter().any(|part| frame.is_in(part)) && !frame.is(&["zero_grad"])
}

fn is_collective(frame: &Frame) -> bool {
    let files = [
        "torch/distributed/fsdp/",
        "torch/distributed/_composable/fsdp/",
        "torch/distributed/distributed_c10d",
        "torch/distributed/_functional_collectives",
        "torch/nn/parallel/distributed",
        "megatron/core/distributed/",
        "deepspeed/runtime/zero/",
        "deepspeed/comm/",
    ];
    // The wrapper's own forward pass is around everything that the model allocates.
    files.iter().any(|part| frame.is_in(part)) && !frame.is(&["forward", "_run_ddp_forward", "fsdp_hook_wrapper"])
}

fn is_backward(frame: &Frame) -> bool {
    frame.is(&["_engine_run_backward", "run_backward", "backward"])
        || frame.name.contains("torch::autograd::Engine")
        || frame.name.contains("AccumulateGrad")
}

fn is_making(frame: &Frame) -> bool {
    frame.is(&[
        "__init__",
        "_apply",
        "convert",
        "reset_parameters",
        "from_pretrained",
        "load_state_dict",
        "_load_from_state_dict",
        "set_module_tensor_to_device",
        "_load_parameter_into_model",
        "to_empty",
        "init_weights",
    ]) && (frame.is_in("torch/nn/")
        || frame.is_in("transformers/")
        || frame.is_in("accelerate/")
        || frame.is(&["__init__"]))
}

/// The named term of a prediction, by words in the functions and files of a forward pass.
fn part(frames: &[Frame]) -> Option<&'static str> {
    const WORDS: [(&[&str], &str); 8] = [
        (&["cross_entropy", "nll_loss", "log_softmax", "lm_head", "loss_function", "compute_loss"], "logits and loss"),
        (&["layer_norm", "rms_norm", "rmsnorm", "layernorm", "batch_norm", "normalization"], "norms"),
        (&["expert", "moe"], "experts"),
        (&["attention", "attn", "softmax"], "attention"),
        (&["mlp", "feed_forward", "feedforward", "ffn"], "feed-forward"),
        (&["embedding"], "embedding"),
        (&["conv2d", "conv1d", "conv3d", "_conv_forward"], "convolutions"),
        (&["lora"], "adapters"),
    ];
    // The innermost frame that says anything wins.
    frames.iter().find_map(|frame| {
        let file = frame.file.rsplit('/').next().unwrap_or_default();
        let text = format!("{} {file}", frame.name).to_ascii_lowercase();
        WORDS.iter().find(|(words, _)| words.iter().any(|word| text.contains(word))).map(|(_, part)| *part)
    })
}

/// Where in the user's or the model's code: the innermost frame outside of PyTorch.
pub fn place(frames: &[Frame]) -> String {
    let own = frames.iter().find(|frame| !frame.is_library());
    match own.or_else(|| frames.first()) {
        Some(frame) if frame.file.is_empty() || frame.is_native() => frame.name.clone(),
        Some(frame) => {
            let file = frame.file.rsplit('/').next().unwrap_or_default();
            format!("{file}:{} {}", frame.line, frame.name)
        }
        None => "no frames".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames, what they are for, and the named term.
    type Case<'a> = (&'a [(&'a str, &'a str)], BlockPurpose, Option<&'a str>);

    fn frames(stack: &[(&str, &str)]) -> Vec<Frame> {
        stack.iter().map(|(file, name)| Frame { file: (*file).to_owned(), name: (*name).to_owned(), line: 7 }).collect()
    }

    #[test]
    fn a_block_belongs_to_the_part_of_the_step_that_made_it() {
        let lib = "/usr/lib/python3/site-packages";
        let stack = |inner: &[(&str, &str)]| {
            let whole: Vec<(String, &str)> = inner
                .iter()
                .map(|(file, name)| {
                    (if file.starts_with('/') { (*file).to_owned() } else { format!("{lib}/{file}") }, *name)
                })
                .collect();
            frames(&whole.iter().map(|(file, name)| (file.as_str(), *name)).collect::<Vec<_>>())
        };
        let cases: [Case<'_>; 9] = [
            (
                &[
                    ("torch/nn/modules/linear.py", "__init__"),
                    ("/home/me/model.py", "__init__"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Parameters,
                None,
            ),
            (
                &[
                    ("torch/nn/modules/module.py", "convert"),
                    ("torch/nn/modules/module.py", "_apply"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Parameters,
                None,
            ),
            (
                &[
                    ("torch/nn/modules/linear.py", "forward"),
                    ("torch/nn/modules/module.py", "_call_impl"),
                    ("/home/me/model.py", "MLP.forward"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Activations,
                Some("feed-forward"),
            ),
            (
                &[
                    ("torch/nn/functional.py", "cross_entropy"),
                    ("/home/me/model.py", "forward"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Activations,
                Some("logits and loss"),
            ),
            (
                &[
                    ("torch/autograd/graph.py", "_engine_run_backward"),
                    ("torch/_tensor.py", "backward"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Gradients,
                None,
            ),
            (
                &[
                    ("torch/optim/adamw.py", "_init_group"),
                    ("torch/optim/adamw.py", "step"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::OptimizerStates,
                None,
            ),
            (
                &[
                    ("torch/optim/adam.py", "_multi_tensor_adam"),
                    ("torch/optim/adamw.py", "step"),
                    ("/home/me/train.py", "<module>"),
                ],
                BlockPurpose::Temporaries,
                None,
            ),
            (
                &[
                    ("torch/distributed/fsdp/_flat_param.py", "_alloc_padded_unsharded_flat_param"),
                    ("torch/nn/modules/module.py", "_call_impl"),
                ],
                BlockPurpose::CommunicationBuffers,
                None,
            ),
            (&[("/home/me/data.py", "collate"), ("/home/me/train.py", "<module>")], BlockPurpose::Other, None),
        ];
        for (inner, wanted, term) in cases {
            assert_eq!(purpose(&stack(inner)), (wanted, term), "{inner:?}");
        }
        assert_eq!(purpose(&[]), (BlockPurpose::Unrecorded, None));
        let native =
            frames(&[("", "c10::cuda::CUDACachingAllocator::malloc"), ("??", "torch::autograd::Engine::thread_main")]);
        assert_eq!(purpose(&native), (BlockPurpose::Gradients, None));
    }

    #[test]
    fn the_place_is_in_the_users_code() {
        let stack = frames(&[("/a/torch/nn/functional.py", "linear"), ("/home/me/model.py", "MLP.forward")]);
        assert_eq!(place(&stack), "model.py:7 MLP.forward");
    }
}
