//! Lines that frameworks wrote, from their own documentation and issues (each file's first line
//! says which). What is expected was read off the lines by a person.

use std::fs;
use std::path::{Path, PathBuf};

use memwall::observe::log::{Log, Pattern};
use memwall::reading::{LogFormat, Moment, Progress, ProgressSource, Reading, ReadingKind};
use memwall::units::{Bytes, Fraction, Seconds, TokensPerSec};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs")
}

fn progress(name: &str) -> Progress {
    let mut log = Log::of_files(vec![folder().join(format!("{name}.log"))], None);
    log.read(Moment(1_000));
    log.progress().clone()
}

fn told(name: &str, format: LogFormat) -> Progress {
    let progress = progress(name);
    assert_eq!(progress.told_by, ProgressSource::Log(format), "{name}");
    progress
}

fn value<T: Copy>(reading: &Reading<T>) -> Option<T> {
    reading.value().copied()
}

fn close(reading: &Reading<Seconds>, seconds: f64) {
    let found = value(reading).expect("a time").0;
    assert!((found / seconds - 1.0).abs() < 1e-6, "{found} s, not {seconds} s");
}

#[test]
fn megatron() {
    let now = told("megatron", LogFormat::Megatron);
    assert_eq!((value(&now.step), value(&now.total_steps), value(&now.loss)), (Some(1), Some(24_000), Some(11.926_34)));
    close(&now.step_time, 271.607);
    assert_eq!(value(&now.model_flops_per_gpu).unwrap().to_string(), "40.4 TFLOP/s");

    let now = told("megatron_deepspeed", LogFormat::Megatron);
    assert_eq!((value(&now.step), value(&now.total_steps)), (Some(12_695), Some(115_311)));
    assert_eq!((value(&now.loss), value(&now.samples_per_s)), (Some(2.463_556), Some(19.463)));
    close(&now.step_time, 105.22);
    assert_eq!(now.step_time.kind(), Some(ReadingKind::Measured));
    // (115 311 - 12 695) x 105.22 s: the chronicle itself says 125 days.
    close(&now.remaining(), 102_616.0 * 105.22);
}

#[test]
fn torchtitan() {
    let now = told("torchtitan", LogFormat::Torchtitan);
    assert_eq!((value(&now.step), value(&now.loss)), (Some(5), Some(7.076_23)));
    assert_eq!(
        (value(&now.tokens_per_s_per_gpu), value(&now.mfu)),
        (Some(TokensPerSec(10_007.0)), Some(Fraction(0.1393)))
    );
    assert_eq!(value(&now.peak_reserved), Some(Bytes::from_gib(66.91)));
    // 19:46:17.508 to 19:46:19.145, one step: not said by the line, so derived.
    close(&now.step_time, 1.637);
    assert_eq!(now.step_time.kind(), Some(ReadingKind::Estimated));
}

#[test]
fn nanogpt() {
    let now = told("nanogpt", LogFormat::NanoGpt);
    assert_eq!((value(&now.step), value(&now.loss)), (Some(20), Some(2.7697)));
    assert!((value(&now.mfu).unwrap().0 - 0.1667).abs() < 1e-12);
    close(&now.step_time, 0.894_88);

    // Its configuration says how long it is to be: 2000 - 20 iterations of 0.89488 s.
    let text = fs::read_to_string(folder().join("nanogpt.log")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), format!("Overriding: max_iters = 2000\n{text}")).unwrap();
    let mut log = Log::of_files(vec![file.path().to_owned()], None);
    log.read(Moment(1_000));
    assert_eq!(value(&log.progress().total_steps), Some(2_000));
    close(&log.progress().remaining(), 1_980.0 * 0.894_88);

    let now = told("nanogpt_nan", LogFormat::NanoGpt);
    assert_eq!(value(&now.step), Some(3_010));
    assert!(value(&now.loss).unwrap().is_nan());
}

#[test]
fn hugging_face() {
    let now = told("hugging_face", LogFormat::HuggingFace);
    // The bar of the evaluation, 24 of 24, is none of training.
    assert_eq!((value(&now.step), value(&now.total_steps)), (Some(4), Some(203)));
    assert_eq!((value(&now.loss), value(&now.epoch)), (Some(2.119), Some(0.25)));
    close(&now.step_time, 9.33);

    let now = told("hugging_face_5", LogFormat::HuggingFace);
    assert_eq!((value(&now.loss), value(&now.samples_per_s)), (Some(0.7228), Some(1.474)));
    close(&now.step_time, 1.0 / 0.185);
}

#[test]
fn deepspeed() {
    let now = told("deepspeed", LogFormat::DeepSpeed);
    assert_eq!((value(&now.step), value(&now.samples_per_s)), (Some(460), Some(25.733_803_625_820_48)));
    assert_eq!(value(&now.peak_allocated), Some(Bytes::from_gib(38.49)));
    assert_eq!(value(&now.allocated), Some(Bytes::from_gib(4.32)));
    // 02:13:41.415 to 02:14:06.394, ten steps.
    close(&now.step_time, 2.4979);

    let now = told("deepspeed_0_6", LogFormat::DeepSpeed);
    assert_eq!((value(&now.step), value(&now.peak_allocated)), (Some(50), Some(Bytes::from_gib(9.02))));
    assert_eq!(value(&now.samples_per_s), Some(83.738_388_053_585_88));
    // 02:06:58.985 to 02:07:14.130.
    close(&now.step_time, 1.5145);
}

#[test]
fn lightning() {
    let now = told("lightning", LogFormat::Lightning);
    // Three epochs of 938 batches and 307 more.
    assert_eq!((value(&now.step), now.step.kind()), (Some(3_121), Some(ReadingKind::Estimated)));
    assert_eq!((value(&now.loss), value(&now.total_steps)), (Some(0.198), None));
    assert_eq!(value(&now.epoch), Some(3.0 + 307.0 / 938.0));
    close(&now.step_time, 1.0 / 289.04);
}

#[test]
fn torchtune() {
    let now = told("torchtune", LogFormat::Torchtune);
    assert_eq!((value(&now.step), value(&now.loss)), (Some(149), Some(0.915_747_702_121_734_6)));
    assert_eq!(value(&now.epoch), Some(149.0 / 25_880.0));
    close(&now.step_time, 1.0 / 1.15);

    let now = told("torchtune_metrics", LogFormat::Torchtune);
    assert_eq!((value(&now.step), value(&now.loss)), (Some(5), Some(0.351_196_199_655_532_84)));
    assert_eq!(value(&now.tokens_per_s_per_gpu), Some(TokensPerSec(9_077.155_273_437_5)));
    assert_eq!(value(&now.peak_reserved), Some(Bytes::from_gib(104.054_687_5)));
}

/// torchtune 0.6.1 draws its bar once without a word before it, and prints its configuration first: 8 epochs of 50 steps.
/// At step 53, the third of the second epoch, 347 x 0.125 s are left.
#[test]
fn a_bar_of_an_epoch_is_not_the_run() {
    let now = told("torchtune_epochs", LogFormat::Torchtune);
    assert_eq!((value(&now.step), value(&now.total_steps)), (Some(53), Some(400)));
    assert_eq!((value(&now.epoch), value(&now.loss)), (Some(1.06), Some(6.2)));
    close(&now.remaining(), 347.0 * 0.125);

    let text = fs::read_to_string(folder().join("torchtune_epochs.log")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text.replace("epochs: 8", "epochs: null")).unwrap();
    let mut log = Log::of_files(vec![file.path().to_owned()], None);
    log.read(Moment(1_000));
    // How many epochs there are nobody tells, and so not when the run ends.
    assert_eq!((value(&log.progress().step), value(&log.progress().total_steps)), (Some(53), None));
    assert_eq!(value(&log.progress().remaining()), None);
}

#[test]
fn litgpt() {
    let now = told("litgpt", LogFormat::LitGpt);
    assert_eq!((value(&now.step), value(&now.loss)), (Some(2), Some(1.640)));
    // Two micro batches a step: 300.07 + 595.27 ms; the next step is not whole yet.
    close(&now.step_time, 0.895_34);
}

#[test]
fn composer() {
    let now = told("composer", LogFormat::Composer);
    assert_eq!((value(&now.step), value(&now.total_steps), value(&now.loss)), (Some(4), Some(100), Some(10.6459)));

    let now = told("composer_epochs", LogFormat::Composer);
    assert_eq!((value(&now.step), value(&now.loss), value(&now.total_steps)), (Some(3), Some(8.3177), None));
    assert_eq!(value(&now.tokens_per_s_per_gpu), Some(TokensPerSec(1293.4943)));
    assert_eq!(value(&now.peak_reserved), Some(Bytes(21_582_000_000)));
    close(&now.step_time, 1.0 / 0.0014);
}

/// What is told, in words: `~` where it is derived.
fn in_words(now: &Progress) -> String {
    let mut words = Vec::new();
    let mut add = |name: &str, value: Option<String>, kind: Option<ReadingKind>| {
        words.extend(value.map(|value| format!("{name} {}{value}", kind.map_or("", ReadingKind::mark))));
    };
    add("step", value(&now.step).map(|step| step.to_string()), now.step.kind());
    add("of", value(&now.total_steps).map(|step| step.to_string()), None);
    add("loss", value(&now.loss).map(|loss| loss.to_string()), None);
    add("norm", value(&now.grad_norm).map(|norm| norm.to_string()), None);
    add("time", value(&now.step_time).map(|time| format!("{:.5}", time.0)), now.step_time.kind());
    add("tok/s", value(&now.tokens_per_s).map(|rate| rate.0.to_string()), None);
    add("tok/s/GPU", value(&now.tokens_per_s_per_gpu).map(|rate| rate.0.to_string()), None);
    add("samples/s", value(&now.samples_per_s).map(|rate| rate.to_string()), None);
    add("mfu", value(&now.mfu).map(|mfu| format!("{:.4}", mfu.0)), None);
    add("flops", value(&now.model_flops_per_gpu).map(|rate| format!("{:.4e}", rate.0)), None);
    add("epoch", value(&now.epoch).map(|epoch| format!("{epoch:.4}")), None);
    words.join(", ")
}

#[test]
fn other_releases_and_settings_of_the_same_frameworks() {
    use LogFormat::{Composer, DeepSpeed, HuggingFace, Lightning, LitGpt, Megatron, NanoGpt, Torchtitan, Torchtune};
    for (name, format, words) in [
        ("megatron_moe", Megatron, "step 45, of 100, loss 1.834162, norm 1.611, time 5.71860, flops 2.2840e14"),
        // The first line has no loss: all its steps overflowed.
        ("megatron_bert", Megatron, "step 20, of 1000000, loss 10.05022, norm 217.199, time 0.14060"),
        ("megatron_neox", Megatron, "step 34, of 10000, loss 11.18665, time 4.10310, samples/s 7.799, flops 1.1290e14"),
        // 22:31:04.970 to 22:32:00.846 for 40 steps.
        (
            "torchtitan_every_ten",
            Torchtitan,
            "step 250, loss 5.8383, time ~1.39690, tok/s/GPU 5862, mfu 0.3433, flops 3.3948e14",
        ),
        // 10:37:01.390 to 10:37:07.957 for 9 steps, whichever rank says so.
        (
            "torchtitan_ranks",
            Torchtitan,
            "step 10, loss 10.2391, norm 16.1413, time ~0.72967, tok/s/GPU 5615, mfu 0.3288, flops 3.2520e14",
        ),
        ("nanogpt_2023", NanoGpt, "step 1641, loss 3.9748, time 0.56731"),
        ("nanogpt_printing", NanoGpt, "step 36299, loss 6.288, time 0.17097, mfu 0.0001"),
        (
            "hugging_face_trl",
            HuggingFace,
            "step 100, of 7252, loss 0.3771, norm 0.6300405859947205, time 14.62000, epoch 0.0100",
        ),
        ("hugging_face_axolotl", HuggingFace, "loss 2.0312, norm 59.5, epoch 2.0000"),
        ("hugging_face_llama_factory", HuggingFace, "step 3235, of 3235, loss 4.4598, epoch 1.0000"),
        // 15 s for 50 steps.
        ("deepspeed_2020", DeepSpeed, "step 2700, time ~0.30000, samples/s 13.198177991591365"),
        ("deepspeed_pipeline", DeepSpeed, "step 200, loss 5.5508, time 0.93600, samples/s 136.706"),
        // 21:03:17.269 to 21:03:21.037.
        ("deepspeed_breakdown", DeepSpeed, "step 35, time ~3.76800, samples/s 8.00912418308922"),
        ("lightning_0_10", Lightning, "step ~5, loss 9.85, time 4.14000, epoch 0.2778"),
        ("lightning_narrow", Lightning, "step ~1020, loss 1.2, time 0.06357, epoch 0.3400"),
        ("lightning_stream", Lightning, "step ~3744, loss 0.041, time 3.12500"),
        // Counted from 0 there.
        ("lightning_nemo", Lightning, "step 122, of 150, loss 1.288, time 0.03163, epoch 0.0000"),
        // One batch a step: the count beside the bar is the one before.
        ("lightning_nemo_1", Lightning, "step ~795, loss 3.1, time 41.36000, epoch 0.0103"),
        ("lightning_rich", Lightning, "step ~3121, loss 0.198, time 0.00346, epoch 3.3273"),
        // 16:04:46.338 to 16:04:48.577, two steps.
        (
            "torchtitan_2026",
            Torchtitan,
            "step 16, loss 3.05047, norm 0.5443, time ~1.11950, tok/s/GPU 7313, mfu 0.0017, flops 5.2000e11",
        ),
        ("torchtune_2024", Torchtune, "step 17, loss 0.9709498286247253"),
        ("torchtune_xpu", Torchtune, "step 6, loss 0.9700961112976074, tok/s/GPU 187.36773681640625"),
        // 108.74 + 190.11 ms.
        ("litgpt_2023", LitGpt, "step 52, loss 3.7451, time 0.29885"),
        // 64 micro batches of 352.5 ms.
        ("litgpt_pretrain", LitGpt, "step 5, loss 10.772, time ~22.56000"),
        ("composer_2023", Composer, "step 1, of 4800, loss 11.6525"),
        (
            "composer_tokens",
            Composer,
            "step 20, loss 9.1042, norm 1.2345, time 2.48694, tok/s/GPU 105406.25, mfu 0.4123",
        ),
    ] {
        assert_eq!(in_words(&told(name, format)), words, "{name}");
    }
    assert_eq!(value(&progress("hugging_face_axolotl").peak_reserved), Some(Bytes::from_gib(41.26)));
    assert_eq!(value(&progress("torchtune_2024").allocated), Some(Bytes(40_625_845_248)));
}

/// Lines of nobody's: a step and a loss in text, or an object of JSON.
#[test]
fn logs_of_no_framework() {
    // 100 steps in 25 s. Within the first epoch of five nobody knows whether 600 steps are one of them or, by a limit of
    // steps, the run.
    let now = told("text_epochs", LogFormat::Text);
    assert_eq!((value(&now.step), value(&now.total_steps)), (Some(400), None));
    assert_eq!(value(&now.loss), Some(0.0713));
    close(&now.step_time, 0.25);
    // 100 updates in 40 s.
    let now = told("json_fairseq", LogFormat::Json);
    assert_eq!((value(&now.step), value(&now.loss), value(&now.grad_norm)), (Some(300), Some(10.021), Some(1.9)));
    close(&now.step_time, 0.4);
}

#[test]
fn batches_within_an_epoch() {
    let now = told("epochs_mmdet", LogFormat::Text);
    assert_eq!((value(&now.step), now.step.kind()), (Some(2_500), Some(ReadingKind::Estimated)));
    assert_eq!((value(&now.loss), value(&now.peak_allocated)), (Some(0.4704), Some(Bytes(6836 << 20))));
    close(&now.step_time, 0.595);
    let now = told("epochs_torchvision", LogFormat::Text);
    assert_eq!((value(&now.step), value(&now.total_steps)), (Some(109), None));
    assert_eq!((value(&now.loss), value(&now.peak_allocated)), (Some(6.8989), Some(Bytes(3524 << 20))));
    close(&now.step_time, 2.6215);
}

/// What a framework writes beside its steps is not read as anybody's.
/// Python writes blocks of 8 192 bytes to a file unless told: the next line comes as late as they are filled.
#[test]
fn a_log_in_blocks_tells_many_steps_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.log");
    // Lines of 64 bytes, 300 of them.
    let lines: String = (1..=300).map(|step| format!("{:<63}\n", format!("step {step} loss 2.5"))).collect();
    let every = |end: &str| {
        fs::write(&path, format!("{lines}{end}")).unwrap();
        let mut log = Log::at(path.clone(), None);
        log.read(Moment(1));
        log.progress().told_every
    };
    assert_eq!(every(""), Some(1));
    // The last 8 192 of 19 203 bytes begin at 11 011: line 172 ends at 11 008, so that 173 to 300 end behind it.
    assert_eq!(every("ste"), Some(128));
}

#[test]
fn where_a_framework_writes_other_lines_are_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, "iter 7: loss 1.5, time 10.00ms\nsaved at step 900 with loss 9.0\n").unwrap();
    let mut log = Log::of_files(vec![path], None);
    log.read(Moment(1));
    assert_eq!((value(&log.progress().step), value(&log.progress().loss)), (Some(7), Some(1.5)));
}

#[test]
fn every_log_has_a_test() {
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/observe/logs.rs")).unwrap();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(source.contains(&format!("\"{name}\"")), "{name}");
        assert!(fs::read_to_string(&path).unwrap().starts_with("# "), "{name} does not say where it is from");
    }
}

#[test]
fn the_users_own_pattern_comes_before_all_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, "iter 7: loss 1.5, time 10.00ms\n").unwrap();
    let own = Pattern::new(r"iter (?<step>\d+): loss (?<loss>\S+), time (?<step_time_s>[\d.]+)").unwrap();
    let mut log = Log::of_files(vec![path], Some(own));
    log.read(Moment(1));
    assert_eq!(log.progress().told_by, ProgressSource::Log(LogFormat::Own));
    close(&log.progress().step_time, 10.0);
}

#[test]
fn garbage_of_all_kinds_tells_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    // A linear congruential generator: the same bytes every time.
    let mut seed = 12_345_u32;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed.to_be_bytes()[0]
    })
    .take(1 << 20)
    .collect();
    fs::write(&path, &bytes).unwrap();
    let mut log = Log::of_files(vec![path], None);
    log.read(Moment(1));
    assert_eq!(log.progress(), &Progress::default());
    assert!(log.trouble().is_none());
}

/// Three epochs of 40 steps, the first at its end; escape sequences of a forced terminal between.
#[test]
fn rich_without_a_framework() {
    let now = told("rich", LogFormat::Bar);
    assert_eq!((value(&now.step), value(&now.total_steps)), (Some(40), Some(120)));
    assert_eq!((value(&now.epoch), value(&now.loss)), (Some(1.0), Some(0.075)));
}

/// transformers writes its header to standard error, and the losses to standard output; a long log is read from its end,
/// and its header from its beginning.
#[test]
fn what_the_header_states_is_kept_beside_the_steps() {
    let folder = tempfile::tempdir().unwrap();
    let [out, err] = ["out", "err"].map(|name| folder.path().join(name));
    let header =
        "***** Running training *****\n  Instantaneous batch size per device = 8\n  Gradient Accumulation steps = 4\n";
    let line = "{'loss': 2.119, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.03}\n";
    fs::write(&out, line).unwrap();
    // Some 720 kB, of which 256 are read.
    fs::write(&err, format!("{header}{}", line.repeat(10_000))).unwrap();
    for files in [vec![err.clone(), out.clone()], vec![out, err]] {
        let mut log = Log::of_files(files, None);
        log.read(Moment(1_000));
        let stated = &log.progress().stated;
        assert_eq!((stated.micro_batch, stated.accumulation), (Some(8), Some(4)));
    }
}
