use super::*;
use crate::units::Bytes;

fn gib(value: f64) -> Option<Bytes> {
    Some(Bytes::from_gib(value))
}

fn mib(value: f64) -> Option<Bytes> {
    Some(Bytes::from_f64(value * 1024.0 * 1024.0))
}

#[test]
fn release_1_0() {
    // pytorch/pytorch issue 16417
    let found = find("RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total capacity; 8.57 MiB already allocated; 9.28 GiB free; 4.68 MiB cached)").unwrap();
    assert_eq!((found.backend.as_str(), found.device, found.asked), ("CUDA", Some(0), mib(12.5)));
    assert_eq!((found.capacity, found.allocated, found.free), (gib(10.92), mib(8.57), gib(9.28)));
    assert_eq!(found.unallocated, mib(4.68));
}

#[test]
fn release_1_4_to_2_0() {
    // pytorch/pytorch issue 59778
    let found = find("`CUDA out of memory. Tried to allocate 2.26 GiB (GPU 0; 6.00 GiB total capacity; 781.59 MiB already allocated; 3.03 GiB free; 1.24 GiB reserved in total by PyTorch) `").unwrap();
    // 1.24 GiB - 781.59 MiB = 488.17 MiB
    assert_eq!((found.asked, found.reserved()), (gib(2.26), gib(1.24)));
    assert_eq!(found.unallocated.unwrap().to_string(), "0.48 GiB");
    // YingqianWang/iPASSR issue 9
    let found = find("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.73 GiB (GPU 0; 8.00 GiB total capacity; 17.20 GiB already allocated; 0 bytes free; 19.15 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.").unwrap();
    assert_eq!((found.free, found.allocated), (Some(Bytes(0)), gib(17.2)));
}

#[test]
fn release_2_1_with_its_misspelling() {
    // kerrj/lerf issue 73
    let found = find("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacty of 23.65 GiB of which 1.66 GiB is free. Including non-PyTorch memory, this process has 20.81 GiB memory in use. Of the allocated memory 12.09 GiB is allocated by PyTorch, and 4.84 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.").unwrap();
    assert_eq!((found.capacity, found.free, found.in_process), (gib(23.65), gib(1.66), gib(20.81)));
    assert_eq!((found.allocated, found.unallocated), (gib(12.09), gib(4.84)));
    // 20.81 - 12.09 - 4.84 = 3.88; 23.65 - 1.66 - 20.81 = 1.18
    assert_eq!(found.outside_torch().unwrap().to_string(), "3.88 GiB");
    assert_eq!(found.elsewhere().unwrap().to_string(), "1.18 GiB");
    assert_eq!(found.would_fit_unfragmented(), Some(true));
}

#[test]
fn release_2_9_with_other_processes_limits_and_private_pools() {
    // The sentences of CUDACachingAllocator.cpp, each once; broken over lines as a logger does.
    let text = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.\n GPU 3 has a total capacity of 79.10 GiB of which 201.25 MiB is free. \
        60.00 GiB allowed; Process 4711 has 10.50 GiB memory in use. Process 4712 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has 67.40 GiB \
        memory in use. Of the allocated memory 61.00 GiB is allocated by PyTorch, with 17.00 MiB allocated in private pools (e.g., CUDA Graphs), and 3.20 GiB is reserved by PyTorch but unallocated. If";
    let found = find(text).unwrap();
    assert_eq!((found.device, found.asked, found.allowed), (Some(3), mib(512.0), gib(60.0)));
    assert_eq!(found.others, [(4711, Bytes::from_gib(10.5)), (4712, Bytes::from_gib(1.0))]);
    assert_eq!((found.private_pools, found.unallocated), (mib(17.0), gib(3.2)));
    assert_eq!(found.elsewhere(), gib(11.5));
}

#[test]
fn rocm() {
    // ROCm/TheRock issue 2118
    let found = find("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB of which 244.65 GiB is free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by PyTorch, with 17.00 MiB allocated in private pools (e.g., HIP Graphs), and 54.99 MiB is reserved by PyTorch but unallocated.").unwrap();
    assert_eq!((found.backend.as_str(), found.allowed, found.allocated), ("HIP", gib(1.05), mib(1017.01)));
    assert_eq!(found.unallocated, mib(54.99));
}

#[test]
fn the_drivers_own_refusal_has_no_figures() {
    let found = find("RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be").unwrap();
    let kind = OutOfMemoryKind::Driver;
    assert_eq!(found, OutOfMemory { backend: "CUDA".to_owned(), kind, ..OutOfMemory::default() });
}

#[test]
fn the_last_message_counts_and_other_texts_have_none() {
    let one = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 2.00 GiB is free.";
    let two = one.replace("1.00 GiB", "3.00 GiB");
    assert_eq!(find(&format!("{one}\n{two}\n")).unwrap().asked, gib(3.0));
    for text in ["", "we ran out of memory", "Killed: out of memory", "out of memory", "CUDA out of"] {
        assert_eq!(find(text), None, "{text}");
    }
    assert_eq!(find("CUDA out of memory. Tried to allocate 1e999 GiB. GPU 99999999999 has").unwrap().asked, None);
}

#[test]
fn colours_boxes_and_consequences_do_not_hide_a_message() {
    // The box of a rich traceback, as in bitsandbytes-foundation/bitsandbytes issue 758.
    let text = "\u{256d}\u{2500}\u{2500}\u{256e}\n\u{2502}\u{1b}[1;31mOutOfMemoryError\u{1b}[0m: CUDA out of memory. Tried to allocate 1024.00 MiB    \u{2502}\n\
        \u{2502} (GPU 0; 8.00 GiB total capacity; 12.19 GiB already \u{2502}\n\u{2502} allocated; 0 bytes free; 12.68 GiB reserved in total by PyTorch) \u{2502}\n";
    let found = find(text).unwrap();
    assert_eq!((found.asked, found.capacity, found.allocated), (gib(1.0), gib(8.0), gib(12.19)));
    assert_eq!((found.free, found.reserved()), (Some(Bytes(0)), gib(12.68)));
    // The driver's refusals that follow, without figures, are consequences.
    assert_eq!(find(&format!("{text}terminate called: CUDA error: out of memory\n")), Some(found));
}

#[test]
fn of_several_killed_processes_it_is_python() {
    let text = "Out of memory: Killed process 15784 (python3) total-vm:11964kB, anon-rss:4288kB, file-rss:3028kB, shmem-rss:0kB\n\
        Out of memory: Killed process 15925 ((resolved)) total-vm:168424kB, anon-rss:4064kB, file-rss:3584kB, shmem-rss:0kB\n";
    let found = find(text).unwrap();
    assert_eq!((found.own_pid, found.process.as_deref()), (Some(15784), Some("python3")));
    assert_eq!(found.in_process, Some(Bytes((4288 + 3028) * 1024)));
}

#[test]
fn a_smaller_workspace_is_no_failure() {
    // CharlesShang/TFFRCNN issue 68
    let text = "2017-07-02 15:57:33.230281: W tensorflow/core/common_runtime/bfc_allocator.cc:217] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.59GiB. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory is available.";
    assert_eq!(find(text), None);
    // What follows it, and is one, is told.
    let failed =
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.00GiB. Current allocation summary follows.";
    assert_eq!(find(&format!("{text}\n{failed}")).unwrap().asked, gib(1.0));
    assert_eq!(find(&format!("{failed}\n{text}")).unwrap().asked, gib(1.0));
}

#[test]
fn a_kernel_that_wants_too_much_of_the_chip_is_not_what_a_run_ends_of() {
    // triton-lang/triton issue 8182
    let kernel = "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.";
    let found = find(kernel).unwrap();
    assert_eq!((found.asked, found.capacity), (Some(Bytes(131_072)), Some(Bytes(101_376))));
    assert!(!found.ends_runs() && found.kind == OutOfMemoryKind::OnChip);
    // A choice that is passed over does not hide what ended the run, before it or after it.
    let failed = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 11.06 MiB is free.";
    for text in [format!("{failed}\n{kernel}"), format!("{kernel}\n{failed}")] {
        assert_eq!(find(&text).unwrap().kind, OutOfMemoryKind::Allocator, "{text}");
    }
    let refused = format!("{kernel}\nRuntimeError: CUDA error: out of memory");
    assert_eq!(find(&refused).unwrap().kind, OutOfMemoryKind::Driver);
    // ptxas of CUDA 7 and later: 0x18000 and 0xc000 bytes.
    let assembled =
        find("ptxas error   : Entry function '_Z4tile' uses too much shared data (0x18000 bytes, 0xc000 max)");
    assert_eq!(assembled.and_then(|found| found.asked), Some(Bytes(98_304)));
}

#[test]
fn a_loaders_worker_that_lost_its_shared_memory_is_known() {
    // hezhangsprinter/DCPDN issue 12, open-mmlab/mmdetection issue 291, open-mmlab/mmaction2 issue 218
    let texts = [
        ("RuntimeError: DataLoader worker (pid 19597) is killed by signal: Killed.", UnexplainedFailure::Killed),
        (
            "RuntimeError: DataLoader worker (pid 34569) is killed by signal: Bus error. Details are lost due to multiprocessing.",
            UnexplainedFailure::SharedMemory,
        ),
        (
            "RuntimeError: unable to open shared memory object </torch_16550_876314950> in read-write mode",
            UnexplainedFailure::SharedMemory,
        ),
        // datalab-to/marker issue 181 (its title), facebookresearch/maskrcnn-benchmark issue 158, CPython's
        // multiprocessing/reduction.py (`recvfds`)
        ("RuntimeError: unable to open shared memory objec Too many open files (24)", UnexplainedFailure::OpenFiles),
        (
            "RuntimeError: unable to open shared memory object </torch_30997_2076642173> in read-write mode\nOSError: [Errno 24] Too many open files",
            UnexplainedFailure::OpenFiles,
        ),
        ("RuntimeError: received 0 items of ancdata", UnexplainedFailure::OpenFiles),
        // intel/ipex-llm issue 9467, ggml-org/ggml issue 1072, intel/intel-extension-for-tensorflow issue 20 (its title)
        (
            "RuntimeError: Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES) -5 (PI_ERROR_OUT_OF_RESOURCES)",
            UnexplainedFailure::IntelResources,
        ),
        (
            "Native API failed. Native API returns: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)",
            UnexplainedFailure::IntelResources,
        ),
        (
            "Native API failed. Native API returns: -5 (CL_OUT_OF_RESOURCES) -5 (CL_OUT_OF_RESOURCES)",
            UnexplainedFailure::IntelResources,
        ),
    ];
    for (text, failure) in texts {
        assert_eq!((find(text), unexplained(text)), (None, Some(failure)), "{text}");
    }
}

#[test]
fn of_several_ranks_the_shortest_is_told_with_the_others_names() {
    let rank = |rank: u32, free: &str| {
        format!(
            "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.79 GiB. GPU {rank} has a total capacity of \
             79.11 GiB of which {free} GiB is free. Of the allocated memory 65.29 GiB is allocated by PyTorch, and 3.83 GiB is \
             reserved by PyTorch but unallocated.\n"
        )
    };
    for text in [rank(3, "1.06") + &rank(1, "2.46"), rank(1, "2.46") + &rank(3, "1.06") + &rank(1, "2.46")] {
        let found = find(&text).unwrap();
        assert_eq!((found.device, found.rank, found.free), (Some(3), Some(3), gib(1.06)), "{text}");
        assert_eq!(found.also, ["rank 1 (GPU 1)"]);
    }
    // The same rank again, otherwise: another attempt.
    let found = find(&(rank(3, "1.06") + &rank(1, "2.46") + &rank(3, "2.00"))).unwrap();
    assert_eq!((found.device, found.free, found.also.len()), (Some(3), gib(2.0), 0));
}

#[test]
fn the_table_of_a_compiled_program() {
    // jax-ml/jax, as `BufferAssignment::Stats::ToString` lays it out.
    let text = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.\n\
                BufferAssignment OOM Debugging.\nBufferAssignment stats:\n             parameter allocation:  372.76MiB\n              \
                constant allocation:    48.5KiB\n        maybe_live_out allocation:    9.64GiB\n     preallocated temp allocation:    \
                4.44GiB\n                 total allocation:   14.44GiB\n              total fragmentation:  680.30MiB (4.60%)\n";
    let program = find(text).unwrap().program.unwrap();
    assert_eq!((program.parameters, program.outputs, program.temporaries), (mib(372.76), gib(9.64), gib(4.44)));
    assert_eq!((program.total, program.fragmentation), (gib(14.44), mib(680.3)));
}

/// jaxlib's XLA is a repository of its own, TensorFlow's a copy of it.
#[test]
fn whose_allocator_it_is_stands_in_its_path() {
    let asked = "502] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.50GiB (rounded to 2684354560)requested by op";
    for (path, backend) in [
        ("external/xla/xla/tsl/framework", "JAX"),
        ("external/tsl/tsl/framework", "JAX"),
        ("external/local_xla/xla/tsl/framework", "TensorFlow"),
        ("external/local_tsl/tsl/framework", "TensorFlow"),
        ("tensorflow/core/common_runtime", "TensorFlow"),
    ] {
        let found = find(&format!("2024-03-03 11:11:11.1: W {path}/bfc_allocator.cc:{asked}")).unwrap();
        assert_eq!((found.backend.as_str(), found.asked), (backend, gib(2.5)), "{path}");
    }
}

/// PyTorch 0.4, `aten/src/THC/generic/THCStorage.cu`, `THCStorage_resize`: a tensor's own memory.
#[test]
fn a_storages_refusal_is_the_allocators() {
    let line = "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58";
    assert_eq!(find(line).unwrap().kind, crate::reading::OutOfMemoryKind::Allocator);
    let other = line.replace("generic/THCStorage.cu:58", "THCGeneral.cpp:663");
    assert_eq!(find(&other).unwrap().kind, crate::reading::OutOfMemoryKind::Driver);
}

/// What `memwall run` writes behind a command that ran out has fewer figures than PyTorch's own message before it.
#[test]
fn memwalls_own_summary_is_no_message() {
    let text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB \
                of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.09 GiB memory in use.\n\
                memwall: the command ended with OutOfMemoryError, exit 1\n\
                memwall: CUDA out of memory on GPU 0: 1.00 GiB short (2.00 GiB asked, 1.00 GiB free)\n";
    let found = find(text).unwrap();
    assert_eq!((found.asked, found.free, found.capacity), (gib(2.0), gib(1.0), gib(79.1)));
    assert!(find("memwall: CUDA out of memory on GPU 0: 1.00 GiB short (2.00 GiB asked)\n").is_none());
}
