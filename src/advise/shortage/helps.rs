//! What would help where memory ran out; nothing that could not.

use super::plan_for_message::{PlanForMessage, PlanMismatch, is_of_other_framework};
use crate::advise::fixes::Fix;
use crate::predict::Prediction;
use crate::reading::{OutOfMemory, OutOfMemoryKind};
use crate::units::Bytes;

/// What would help, the surest first, with what it would bring.
pub fn helps(oom: &OutOfMemory, plan: Option<&PlanForMessage>) -> Vec<String> {
    if oom.is_absurd() {
        return vec![
            "look at what came before: such a size follows a failed collective, an overflowed index or freed memory"
                .to_owned(),
        ];
    }
    let mut helps = match oom.kind {
        OutOfMemoryKind::Allocator => allocator(oom),
        OutOfMemoryKind::Driver => {
            let shows =
                tool(oom).map_or(String::new(), |tool| format!(": {tool} shows which processes hold the device"));
            vec![format!("more room outside of PyTorch's allocator{shows}")]
        }
        OutOfMemoryKind::Library => library(oom),
        OutOfMemoryKind::KvCache => kv_cache(oom),
        OutOfMemoryKind::OnChip => vec![on_chip(oom).to_owned()],
        OutOfMemoryKind::Host => host(oom),
        OutOfMemoryKind::Killed => killed(oom),
    };
    if !oom.kind.is_device() || oom.kind == OutOfMemoryKind::KvCache {
        return helps;
    }
    helps.extend(plan.map(|plan| of_plan(oom, plan)).unwrap_or_default());
    if !has_room(oom) && trains(oom) {
        match plan {
            _ if is_of_other_framework(oom) => helps.push(OF_OTHERS.to_owned()),
            None => helps.push(WITH_PLAN.to_owned()),
            Some(_) => {}
        }
    }
    helps
}

/// The plan's changes, with what each would bring: on another GPU than the plan's, what the changed plan needs of it.
fn of_plan(oom: &OutOfMemory, plan: &PlanForMessage) -> Vec<String> {
    // What another plan would save is enough for nobody's request.
    let enough = if matches!(plan.mismatch, Some(PlanMismatch::Held(_))) { Enough(None) } else { Enough::of(oom) };
    let keys = |relief: &Fix| {
        let keys: Vec<String> = relief.change.set.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        keys.join(", ")
    };
    let offered = offered(oom, plan);
    let Some(PlanMismatch::Gpu { capacity, .. }) = &plan.mismatch else {
        let one = |relief: &Fix| {
            let slower = pace(relief, &plan.prediction);
            let saves = relief.saves();
            format!("{}, {saves} less by prediction{slower}{}", keys(relief), enough.word(saves))
        };
        return offered.into_iter().map(one).collect();
    };
    let needed = plan.prediction.capacity.needed;
    if needed <= *capacity {
        return vec![format!(
            "the plan of this run: by this one {needed} of {capacity} are needed, and the run wanted more (memwall infer PID \
             writes the plan of what runs)"
        )];
    }
    if offered.is_empty() {
        return vec![format!(
            "no single change of the plan: it needs {needed} by prediction, and no change brings it below {capacity} (memwall \
             search tries several at once, with that GPU in the plan)"
        )];
    }
    let one = |relief: &Fix| {
        let slower = pace(relief, &plan.prediction);
        format!("{}: {} of {capacity} needed by prediction{slower}", keys(relief), relief.outline.capacity.needed)
    };
    offered.into_iter().map(one).collect()
}

/// The changes that are of use: on the plan's own GPU those that save no more than the process held, on another GPU those
/// with which the plan fits it.
#[must_use]
pub fn offered<'a>(oom: &OutOfMemory, plan: &'a PlanForMessage) -> Vec<&'a Fix> {
    let held = [oom.in_process, oom.reserved(), oom.allocated].into_iter().flatten().max();
    let is_offered = |relief: &&Fix| match &plan.mismatch {
        Some(PlanMismatch::Framework(_)) => false,
        Some(PlanMismatch::Gpu { capacity, .. }) => {
            plan.prediction.capacity.needed > *capacity && relief.outline.capacity.needed <= *capacity
        }
        // More cannot be freed of it, whatever the plan would need at its peak.
        Some(PlanMismatch::Held(_)) | None => held.is_none_or(|held| relief.saves() <= held),
    };
    plan.relief.iter().filter(is_offered).collect()
}

/// What helps in any framework.
const OF_OTHERS: &str =
    "a smaller batch on each device, recomputation in the backward pass, or sharding, as its framework has them";

/// The advice that a plan makes figures of.
pub const WITH_PLAN: &str = "a smaller micro batch, checkpointing, sharding: beside the run's plan each is predicted";

/// Whether a training plan may be of what ran out: these run models that are trained.
fn trains(oom: &OutOfMemory) -> bool {
    !["llama.cpp", "ONNX Runtime", "TensorRT"].contains(&oom.backend.as_str())
}

/// Whether the device has room for the request many times over: not its size is what was refused.
fn has_room(oom: &OutOfMemory) -> bool {
    oom.allowed.is_none() && oom.segment().zip(oom.free).is_some_and(|(taken, free)| taken * 10 < free)
}

/// What is refused although it is free, other processes cannot free.
fn is_refused_although_free(oom: &OutOfMemory) -> bool {
    oom.segment().zip(oom.free).is_some_and(|(taken, free)| taken <= free)
}

fn kv_cache(oom: &OutOfMemory) -> Vec<String> {
    if let Some((free, capacity)) = oom.free.zip(oom.capacity).filter(|_| oom.is_share()) {
        // It wants its share free when it starts (`vllm/v1/worker/gpu_worker.py`, `init_device`).
        let share = (free.as_f64() / capacity.as_f64() * 100.0).floor() / 100.0;
        let alone = "nothing else on the device when vLLM starts: nvidia-smi, rocm-smi or xpu-smi shows which processes hold it";
        let mut helps = vec![alone.to_owned()];
        // Nothing fits into a twentieth.
        if share >= 0.05 {
            let lower =
                format!("a gpu_memory_utilization of {share:.2} or less, where the weights and a cache go into that");
            helps.insert(0, lower);
        }
        return helps;
    }
    if oom.backend == "SGLang" {
        return vec![
            "a higher --mem-fraction-static, or the weights over more GPUs (--tp-size)".to_owned(),
            "nothing else on the device when SGLang starts: it measures what is free".to_owned(),
        ];
    }
    let shorter = oom.cache.map_or("a shorter max_model_len".to_owned(), |cache| {
        format!("a max_model_len of {} or less, where requests are no longer", cache.there)
    });
    vec![
        format!("a higher gpu_memory_utilization, {shorter}, or the weights over more GPUs (tensor_parallel_size)"),
        "nothing else on the device while vLLM starts: it measures what is free".to_owned(),
    ]
}

/// What was short, as far as the message tells.
struct Enough(Option<Bytes>);

impl Enough {
    fn of(oom: &OutOfMemory) -> Self {
        let short = oom.asked.zip(oom.free).map(|(asked, free)| asked.saturating_sub(free));
        Self(short.filter(|short| *short > Bytes::ZERO))
    }

    const fn word(&self, saves: Bytes) -> &'static str {
        match self.0 {
            Some(short) if saves.0 >= short.0 => ": enough for this request",
            Some(_) => ": not enough alone",
            None => "",
        }
    }
}

/// Whether the device could hold the request at all.
fn is_possible(oom: &OutOfMemory) -> bool {
    oom.asked.zip(oom.capacity).is_none_or(|(asked, capacity)| asked <= capacity)
}

fn allocator(oom: &OutOfMemory) -> Vec<String> {
    match oom.backend.as_str() {
        "JAX" => {
            return vec![
                jax_share(oom),
                "XLA_PYTHON_CLIENT_PREALLOCATE=false where several processes share the device".to_owned(),
            ];
        }
        "TensorFlow" => return tensorflow(oom).into_iter().collect(),
        "CuPy" => return cupy(oom).into_iter().collect(),
        "Paddle" => {
            return vec!["other processes leaving the device, where nvidia-smi lists any".to_owned()];
        }
        "llama.cpp" => {
            return vec![
                "fewer layers on the GPU (--n-gpu-layers), a shorter context (--ctx-size) or a smaller --ubatch-size"
                    .to_owned(),
            ];
        }
        "TensorRT" => {
            return vec![
                "a smaller workspace (--memPoolSize=workspace:N in MiB), a smaller largest shape of the profile, or nothing \
                 else on the device while the engine is built"
                    .to_owned(),
            ];
        }
        "ONNX Runtime" => {
            return vec![
                "smaller inputs, fewer sessions on the device, or a higher gpu_mem_limit where one is set".to_owned(),
            ];
        }
        _ => {}
    }
    if !is_possible(oom) {
        return vec!["a smaller request: this one is more than the device has in all".to_owned()];
    }
    let enough = Enough::of(oom);
    let mut helps: Vec<String> = unfragmented(oom).into_iter().collect();
    // Where nothing says how full the device is, others may fill it.
    let unsaid = (!oom.has_figures()).then(|| tool(oom)).flatten();
    helps
        .extend(unsaid.map(|tool| format!("other processes leaving the device: {tool} shows which processes hold it")));
    helps.extend(others_unnamed(oom));
    helps.extend(lent(oom));
    if has_room(oom) {
        helps.push(
            "a look at what limits this process, since the device is not full: a MIG slice, a container's or WSL's memory, `ulimit -v`, the GPU's compute mode"
                .to_owned(),
        );
    }
    let unless = if oom.may_list_itself() { ", unless it is this one (a container has pids of its own)" } else { "" };
    for (pid, held) in oom.others.iter().filter(|_| !is_refused_although_free(oom)) {
        helps.push(format!("process {pid} leaving the device, {held}{}{unless}", enough.word(*held)));
    }
    match (oom.allowed, oom.backend.as_str()) {
        (Some(_), "MPS") => helps.push(
            "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts the limit; the whole system may run out of memory".to_owned(),
        ),
        (Some(_), "XPU") => helps.push("UR_L0_USE_RELAXED_ALLOCATION_LIMITS=1 allows larger blocks".to_owned()),
        (Some(allowed), _) => helps.push(format!("a higher limit than {allowed} for this process")),
        (None, _) => {}
    }
    helps
}

/// JAX takes 75 % of a device unless told otherwise (`XLA_PYTHON_CLIENT_MEM_FRACTION`): more is of use where the program
/// fits into that.
fn jax_share(oom: &OutOfMemory) -> String {
    const SHARE: f64 = 0.95;
    let usual = "JAX takes 75 % of the device unless told otherwise";
    match oom.program.and_then(|program| program.total) {
        None => format!("XLA_PYTHON_CLIENT_MEM_FRACTION=.95: {usual}"),
        Some(total) => format!(
            "XLA_PYTHON_CLIENT_MEM_FRACTION=.95 on a device of {} or more: {usual}, and the program takes {total}; on a smaller \
             one, a smaller batch, jax.checkpoint, or donated arguments (donate_argnums)",
            Bytes::from_f64(total.as_f64() / SHARE)
        ),
    }
}

/// What makes a kernel's own tiles smaller.
fn on_chip(oom: &OutOfMemory) -> &'static str {
    match oom.backend.as_str() {
        "XLA" => "smaller block shapes of the Pallas kernel, or a higher --xla_tpu_scoped_vmem_limit_kib",
        "Triton" => {
            "smaller block sizes or fewer num_stages of the Triton kernel, or a release of its library that knows this GPU: \
             generations differ in what a block may take"
        }
        _ => "smaller tiles of that kernel, or dynamic shared memory, which may be larger",
    }
}

/// A pool that has reached its own limit, not the device's end.
fn cupy(oom: &OutOfMemory) -> Option<String> {
    oom.allowed.map(|allowed| format!("a higher limit than {allowed} for CuPy's memory pool"))
}

/// What is free of TensorFlow's share would do, were it in one piece (the message itself names the variable).
fn tensorflow(oom: &OutOfMemory) -> Option<String> {
    let free = oom.allowed?.0.checked_sub(oom.allocated?.0).map(Bytes)?;
    let fits = oom.asked.is_some_and(|asked| asked <= free);
    fits.then(|| format!("TF_GPU_ALLOCATOR=cuda_malloc_async: {free} of its share are free, in pieces too small"))
}

/// What lists the processes on a device.
fn tool(oom: &OutOfMemory) -> Option<&'static str> {
    match oom.backend.as_str() {
        "CUDA" => Some("nvidia-smi"),
        "HIP" => Some("rocm-smi --showpids"),
        "NPU" => Some("npu-smi info"),
        "XPU" => Some("xpu-smi ps"),
        _ => None,
    }
}

/// Other processes that the message does not name, where more is held than by this one's context and libraries and
/// by the driver.
fn others_unnamed(oom: &OutOfMemory) -> Option<String> {
    /// A context with its kernels and NCCL's buffers takes less.
    const CONTEXT: Bytes = Bytes(2 << 30);
    const DRIVER: Bytes = Bytes(1 << 30);
    if is_refused_although_free(oom) {
        return None;
    }
    let own = if oom.in_process.is_some() { DRIVER } else { CONTEXT };
    let held = oom.elsewhere().filter(|held| *held > own && oom.others.is_empty())?;
    let tool = tool(oom)?;
    let freed = held.saturating_sub(own);
    Some(format!(
        "other processes leaving the device, which {tool} lists: they hold some {freed}{}",
        Enough::of(oom).word(freed)
    ))
}

/// Where a process holds more than its device has, the driver has lent it the host's memory (Windows and WSL, "CUDA - Sysmem
/// Fallback Policy"): the request fits once that and more is let go of.
fn lent(oom: &OutOfMemory) -> Option<String> {
    let over = oom.reserved()?.0.checked_sub(oom.capacity?.0).filter(|over| *over > 0).map(Bytes)?;
    Some(format!(
        "{over} less and more: the process holds so much beyond the device, in the host's memory that Windows' driver lends, which is slow"
    ))
}

/// What PyTorch holds in pieces serves the request where segments can grow; worth a word where it is a tenth
/// of what is short and more than the rounding of the figures.
fn unfragmented(oom: &OutOfMemory) -> Option<String> {
    const ROUNDING: Bytes = Bytes(16 << 20);
    let unused = oom.unallocated.filter(|unused| *unused > ROUNDING)?;
    let enough = Enough::of(oom);
    if enough.0.is_some_and(|short| short > unused * 10) || oom.asked.is_some_and(|asked| asked > unused * 10) {
        return None;
    }
    let option = match oom.backend.as_str() {
        _ if oom.names_alloc_conf => "PYTORCH_ALLOC_CONF",
        "CUDA" => "PYTORCH_CUDA_ALLOC_CONF",
        "HIP" => "PYTORCH_HIP_ALLOC_CONF",
        "NPU" => "PYTORCH_NPU_ALLOC_CONF",
        _ => {
            return Some(format!("empty_cache() before it, up to {unused} less held in pieces{}", enough.word(unused)));
        }
    };
    let newer = if oom.has_expandable_segments || oom.backend == "NPU" { "" } else { " (PyTorch 2.1 or newer)" };
    Some(format!("{option}=expandable_segments:True{newer}, up to {unused} less held in pieces{}", enough.word(unused)))
}

fn library(oom: &OutOfMemory) -> Vec<String> {
    let own = match oom.backend.as_str() {
        "NCCL" => "room for NCCL's buffers: set_per_process_memory_fraction below 1, or a smaller NCCL_BUFFSIZE",
        "cuBLAS" => {
            "CUDA_LAUNCH_BLOCKING=1 once: where the device is not full, an earlier kernel failed (an index out of range)"
        }
        "cuDNN" => "torch.backends.cudnn.benchmark = False: trying algorithms takes large workspaces",
        _ => return Vec::new(),
    };
    vec![own.to_owned()]
}

fn host(oom: &OutOfMemory) -> Vec<String> {
    let help = match oom.backend.as_str() {
        "shared memory" => "a larger /dev/shm (docker run --shm-size, or --ipc=host), or fewer DataLoader workers",
        "mmap" => return mapping(oom),
        _ => {
            "more host memory for the job, fewer DataLoader workers, less offloaded to the CPU; a GPU's memory is not short"
        }
    };
    vec![help.to_owned()]
}

/// What `mmap` fails for with ENOMEM (its man page): too many mappings, a limit of the process, or no memory to promise.
fn mapping(oom: &OutOfMemory) -> Vec<String> {
    /// A tensor of a batch; files of weights are larger.
    const SMALL: Bytes = Bytes(64 << 20);
    if oom.asked.is_some_and(|asked| asked < SMALL) {
        return vec![
            "a higher vm.max_map_count (sysctl): 65 530 mappings are a process's unless told, and each tensor that workers \
             share is one"
                .to_owned(),
            "fewer and larger tensors in a sample, fewer workers, or copies of what is kept of a batch".to_owned(),
        ];
    }
    vec![
        "more host memory for the job, or vm.overcommit_memory=1: a file that may be written to is promised in full"
            .to_owned(),
        "ulimit -v and the container's limit, where either is set".to_owned(),
    ]
}

fn killed(oom: &OutOfMemory) -> Vec<String> {
    let more = match oom.backend.as_str() {
        "Slurm" => "more memory for the job (--mem, --mem-per-cpu); sacct -j JOB --format=MaxRSS shows what it took",
        // The node was short: the kubelet evicts those first that take more than they asked for.
        "Kubernetes" if oom.process.is_some() => {
            "a memory request as large as what it takes, or a node with more memory"
        }
        "Kubernetes" => "a higher memory limit of the container; kubectl top pod shows what it takes",
        "Ray" => "more memory on the node, or fewer tasks at once (num_cpus of a task)",
        _ => "more host memory, or a higher limit of the container (docker run --memory)",
    };
    vec![
        more.to_owned(),
        "fewer DataLoader workers, less offloaded to the CPU, checkpoints loaded by one process at a time".to_owned(),
    ]
}

fn pace(relief: &Fix, prediction: &Prediction) -> String {
    let change = relief.outline.time.step.0 / prediction.time.step.0 - 1.0;
    let percent = (change * 100.0).round();
    if !percent.is_finite() || percent == 0.0 { String::new() } else { format!(", step {percent:+.0} %") }
}
