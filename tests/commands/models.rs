//! `memwall models` of one GPU: what fits it, and how many of it each scale needs.

use serde_json::Value;

use crate::tools::in_folder;

/// Llama 2 7B: 6 738 415 616 parameters in 2 bytes are 12.55 GiB. Llama 3 70B: 70 553 706 496 are 131.4 GiB, more than one
/// H100 has and less than two. A token's keys and values in 2 bytes are 2 x 32 x 4096 x 2 = 512 KiB and 2 x 80 x 1024 x 2 =
/// 320 KiB; 16 requests of 8192 tokens 64 and 40 GiB.
#[test]
fn gpus_that_each_scale_needs_are_listed() {
    let (out, err, code) = in_folder(&["models", "--scales", "NVIDIA H100", "--format", "json"]);
    assert_eq!((err.as_str(), code), ("", 0));
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(rows.len(), 21);
    let row = |name: &str, bits: u64| rows.iter().find(|row| row["name"] == name && row["bits"] == bits).unwrap();
    let near = |row: &Value, bytes: f64| (row["weight_bytes"].as_f64().unwrap() / bytes - 1.0).abs() < 0.002;
    let (small, large) = (row("llama-2-7b", 16), row("llama-3-70b", 16));
    assert!(near(small, 2.0 * 6_738_415_616.0) && near(large, 2.0 * 70_553_706_496.0), "{small} {large}");
    // 12.55 + 64 GiB leave 3 of 79.6 GiB for what reads one prompt; of 13B 24.2 and 16 x 8192 x 800 KiB = 100 GiB do not fit.
    assert_eq!((&small["gpus_at_least"], &small["gpus_to_serve"]), (&Value::from(1), &Value::from(1)));
    let middle = row("llama-2-13b", 16);
    assert_eq!((&middle["gpus_at_least"], &middle["gpus_to_serve"]), (&Value::from(1), &Value::from(2)));
    assert!(middle["why"].as_str().unwrap().contains("one GPU would hold 100 GiB of cache"), "{middle}");
    assert_eq!((&large["gpus_at_least"], &large["gpus_to_serve"]), (&Value::from(2), &Value::from(4)));
    assert!(large["why"].as_str().unwrap().contains("each of 2 would hold 20.0 GiB of cache"), "{large}");
    // Positions of GPT-3 end at 2048.
    assert!(row("gpt-3-175b", 16)["why"].as_str().unwrap().contains("its requests have 2048 tokens"));
    // DeepSeek-V3: 671.0 billion in 2 bytes are 1 250 GiB, nearly all of 16 GPUs and 39 GiB of each of 32; its latents are
    // (512 + 64) x 2 bytes a layer and token, 8.6 GiB of all 61 layers, so that whoever holds the weights can serve. Keys and
    // values of 128 heads, (192 + 128) x 2 bytes each, would be 610 GiB.
    let latents = row("deepseek-v3", 16);
    assert_eq!((&latents["gpus_at_least"], &latents["gpus_to_serve"]), (&Value::from(32), &Value::from(32)));
    for name in ["llama-2-7b", "llama-3-70b", "gpt-3-175b", "llama-3.1-405b", "deepseek-v3"] {
        let gpus = [16, 8, 4].map(|bits| row(name, bits)["gpus_at_least"].as_u64().unwrap());
        assert!(gpus.is_sorted_by(|more, fewer| more >= fewer), "{name}: {gpus:?}");
    }
    let (_, err, code) = in_folder(&["models", "--scales", "no such GPU"]);
    assert!(err.contains("--scales: no GPU `no such GPU`") && code == 2, "{err}");
}

#[test]
fn models_that_fit_a_gpu_are_listed() {
    let (out, err, code) = in_folder(&["models", "--fit", "RTX 4090", "--train", "full", "--format", "json"]);
    assert_eq!((err.as_str(), code), ("", 0));
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    let fits = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["fits"].as_bool().unwrap();
    // bf16 weights, gradients and two moments: 8 bytes a parameter; 1 GB, and 64 GB on 24 GiB.
    assert!(fits("gpt2") && !fits("llama-3-8b"));
    let (out, ..) = in_folder(&["models", "--fit", "RTX 4090", "--train", "inference"]);
    // 16 GB of weights on 24 GiB, 140 GB not.
    assert!(out.lines().any(|line| line.starts_with("llama-3-8b ")) && !out.contains("llama-3-70b"), "{out}");
    let (_, err, code) = in_folder(&["models", "--fit", "no such GPU"]);
    assert!(code == 2 && err.starts_with("memwall: --fit: no GPU `no such GPU`"), "{err}");
}
