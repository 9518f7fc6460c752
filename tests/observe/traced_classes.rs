//! Classes of transformers whose inputs the tracer makes up, small: each is traced, and says how.

use std::process::Command;

use serde_json::{Value, json};

use crate::traced::{python, torch};

fn text(hidden: u64) -> Value {
    json!({"model_type": "mistral", "hidden_size": hidden, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
           "num_key_value_heads": 2, "vocab_size": 512, "sliding_window": null, "pad_token_id": 2})
}

fn tower(kind: &str, image: u64) -> Value {
    json!({"model_type": kind, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
           "patch_size": 16, "image_size": image})
}

/// A configuration, what is said of its trace, and what is not.
fn cases() -> Vec<(Value, &'static [&'static str])> {
    let flava = json!({"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4});
    let mut seeing = flava.clone();
    seeing["image_size"] = json!(32);
    let mut reading = flava.clone();
    reading["vocab_size"] = json!(200);
    vec![
        // Pixtral's tower gives as many tokens as patches, 20 x 20, whatever `image_seq_length` is by default.
        (
            json!({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "image_token_index": 500,
                   "vision_feature_layer": -1, "vision_feature_select_strategy": "full", "text_config": text(64),
                   "vision_config": tower("pixtral", 480)}),
            &["traced with one image of 480 pixels a side for each sample"],
        ),
        // Its images stand in the text by an index, which autocast's types fail.
        (
            json!({"model_type": "smolvlm", "architectures": ["SmolVLMForConditionalGeneration"], "image_token_id": 500,
                   "scale_factor": 2, "text_config": text(64), "vision_config": tower("smolvlm_vision", 64)}),
            &[
                "traced with one image of 64 pixels",
                "mixed: not traced: RuntimeError: Index put requires the source and destination",
            ],
        ),
        // Its configuration asks for a loss unless the call says otherwise, and that takes codes of an image.
        (
            json!({"model_type": "flava", "architectures": ["FlavaForPreTraining"], "hidden_size": 32, "text_config": reading,
                   "image_config": seeing, "multimodal_config": flava}),
            &["its loss wants labels of a form that only your script knows"],
        ),
        // Tiles of an image, which text sees through layers of its own.
        (
            json!({"model_type": "mllama", "architectures": ["MllamaForConditionalGeneration"], "image_token_index": 500,
                   "text_config": {"model_type": "mllama_text_model", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 500,
                                   "num_hidden_layers": 2, "cross_attention_layers": [1], "num_attention_heads": 4,
                                   "num_key_value_heads": 2, "pad_token_id": 2, "rope_scaling": {"rope_type": "default"}},
                   "vision_config": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_global_layers": 1,
                                     "attention_heads": 4, "image_size": 64, "patch_size": 16, "vision_output_dim": 96,
                                     "intermediate_layers_indices": [0, 1]}}),
            &["traced with one image of 64 pixels a side for each sample"],
        ),
        // It says that it supports gradient checkpointing, and no layer of it asks (models/swiftformer/modeling_swiftformer.py).
        (
            json!({"model_type": "swiftformer", "architectures": ["SwiftFormerModel"], "depths": [2, 2, 2, 2],
                   "embed_dims": [16, 24, 32, 48], "image_size": 64}),
            &["SwiftFormerModel takes gradient_checkpointing_enable() and recomputes nothing"],
        ),
    ]
}

#[test]
fn classes_are_traced_with_inputs_made_up_for_them() {
    let transformers =
        Command::new(python()).args(["-c", "import transformers"]).stderr(std::process::Stdio::null()).status();
    if torch().is_none_or(|version| version < (2, 1)) || !transformers.is_ok_and(|status| status.success()) {
        eprintln!("not run: {} has no PyTorch 2.1 with transformers", python());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (config, said) in cases() {
        let path = folder.path().join("config.json");
        std::fs::write(&path, config.to_string()).unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_memwall"))
            .args(["trace", "--hf", path.to_str().unwrap(), "--python", &python(), "--output"])
            .arg(folder.path().join("made.tape.json.gz"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{config}: {text}");
        for part in said {
            assert!(text.contains(part), "{config}: {part}: {text}");
        }
    }
}
