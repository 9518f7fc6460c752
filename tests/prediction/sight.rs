//! Language models that see: what a tower of vision adds, by hand.

use crate::support::catalog;
use memwall::plan::Document;

fn predicted(text: &str) -> Result<memwall::predict::Prediction, String> {
    let plan = Document::parse(text).unwrap().plan().unwrap();
    memwall::predict::of(&plan, catalog()).map_err(|faults| faults[0].to_string())
}

fn of(model: &str, training: &str) -> memwall::predict::Prediction {
    let text =
        format!("model: {{{model}}}\ntraining: {{precision: bf16-mixed, {training}}}\nhardware: {{gpu_type: H100}}");
    predicted(&text).unwrap()
}

/// CLIP ViT-L/14 at 336 pixels over one image: 577 tokens through 24 layers, each four matrices of 1024 x 1024 and two of 1024 x 4096,
/// and their scores twice; a matrix of 588 x 1024 over 576 patches; a projector of 1024 x 4096 and 4096 x 4096 over 576 tokens.
#[test]
fn an_image_takes_the_operations_of_its_tower() {
    let forward = |images| {
        of(&format!("preset: llava-1.5-7b, sequence_length: 1024, images: {images}"), "loss: hf").flops.forward.0
    };
    let layers = 24.0 * (2.0 * 577.0 * (4.0 * 1024.0 * 1024.0 + 2.0 * 1024.0 * 4096.0) + 4.0 * 577.0 * 577.0 * 1024.0);
    let ends = 2.0 * 576.0 * (588.0 * 1024.0 + 1024.0 * 4096.0 + 4096.0 * 4096.0);
    let found = forward(1) - forward(0);
    assert!((found / (layers + ends) - 1.0).abs() < 1e-9, "{found} is not {}", layers + ends);
}

/// No image is shown: the tower's 668 684 288 parameters are there, without gradients or states. AdamW has two numbers of four bytes
/// for each of the language model's 3 085 938 688.
#[test]
fn a_tower_that_nothing_passes_has_its_weights_alone() {
    let text = of("preset: qwen2.5-vl-3b, images: 0, sequence_length: 512", "optimizer: adamw");
    assert_eq!(text.params.total, 3_085_938_688 + 668_684_288);
    let bytes = |name: &str| text.largest().terms.iter().find(|term| term.name == name).unwrap().bytes.0;
    assert_eq!(bytes("optimizer states"), 8 * 3_085_938_688);
    let by_itself = of("preset: qwen2.5-3b, sequence_length: 512", "optimizer: adamw");
    assert_eq!(text.flops.forward, by_itself.flops.forward);
}

/// The projector of LLaVA 1.5 7B, 20 979 712 parameters, trains beside adapters of rank 8 on the queries and values of 32 layers, 4096 to
/// 4096 each.
#[test]
fn a_projector_may_train_whole_beside_adapters() {
    let lora = |saved: &str| {
        of(
            "preset: llava-1.5-7b, sequence_length: 1024",
            &format!("lora: {{rank: 8, targets: [q_proj, v_proj]{saved}}}"),
        )
    };
    let adapters = 2 * 32 * 8 * (4096 + 4096);
    assert_eq!(lora("").params.trainable, adapters);
    assert_eq!(lora(", modules_to_save: [multi_modal_projector]").params.trainable, adapters + 20_979_712);
}

#[test]
fn what_no_tower_can_be_is_refused() {
    let fault =
        |rest: &str| predicted(&format!("model: {{preset: qwen2.5-vl-7b, sequence_length: 1024, {rest}")).unwrap_err();
    // 1 008 / 28 = 36 tokens a side.
    assert!(fault("image_size: 1008}").contains("take 1296 tokens of each sample"));
    assert!(fault("image_size: 400}").contains("a multiple of 28 pixels"));
    assert!(fault("framework: megatron}").contains("no tower of vision here"));
    let cut = fault("image_size: 448}\ncluster: {num_gpus: 2}\ndistribution: {tensor_parallel: 2}");
    assert!(cut.contains("nothing here cuts a tower of vision"), "{cut}");
    // Branches behind blocks that are not there, twice behind one, and more than layers take up.
    for (branches, layers) in [("[0, 1, 7]", 4), ("[1, 1]", 4), ("[0, 1, 2]", 2)] {
        let text = format!(
            "model: {{hf_config: {{model_type: qwen3_vl, architectures: [Qwen3VLForConditionalGeneration],
              text_config: {{model_type: qwen3_vl_text, hidden_size: 512, num_hidden_layers: {layers}, num_attention_heads: 4}},
              vision_config: {{depth: 4, hidden_size: 64, num_heads: 4, deepstack_visual_indexes: {branches}}}}}}}"
        );
        let said = predicted(&text).unwrap_err();
        assert!(said.contains("deepstack_visual_indexes"), "{branches}: {said}");
    }
    let only = predicted("model: {preset: llava-1.5-7b, image_size: 224}").unwrap_err();
    assert!(only.contains("takes images of 336 pixels a side"), "{only}");
}

/// peft finds names in the tower too: a rank-8 adapter on the gate of 32 blocks of Qwen2.5-VL's, 1280 to 3420, beside those of the language
/// model of 3B, 36 layers of 2048 to 11008. LLaVA's CLIP has `q_proj` in 24 layers of 1024, the last of which nothing reads.
#[test]
fn adapters_stand_in_the_tower_where_the_plan_says() {
    let trained = |model: &str, targets: &str, tower: bool| {
        let lora = format!("lora: {{rank: 8, targets: [{targets}], vision_tower: {tower}}}");
        of(&format!("preset: {model}, sequence_length: 1024"), &lora).params.trainable
    };
    let gates = 36 * 8 * (2048 + 11_008);
    assert_eq!(trained("qwen2.5-vl-3b", "gate_proj", false), gates);
    assert_eq!(trained("qwen2.5-vl-3b", "gate_proj", true), gates + 32 * 8 * (1280 + 3420));
    assert_eq!(trained("llava-1.5-7b", "q_proj", true), 32 * 8 * (4096 + 4096) + 24 * 8 * (1024 + 1024));
    // A name of the tower alone; the two matrices of the merger, 5120 to 5120 and 5120 to 2048.
    assert_eq!(trained("qwen2.5-vl-3b", "mlp.0, mlp.2", true), 8 * (5120 + 5120) + 8 * (5120 + 2048));
}

/// Qwen 2's adapters stand on queries and values where nobody says more (peft 0.18, utils/constants.py), which the tower calls otherwise;
/// Llama's do too, and CLIP calls them the same: 24 layers of 1024 twice.
#[test]
fn adapters_of_the_default_stand_in_the_tower_too() {
    let trained = |tower: bool| {
        of("preset: llava-1.5-7b, sequence_length: 1024", &format!("lora: {{rank: 8, vision_tower: {tower}}}"))
            .params
            .trainable
    };
    assert_eq!(trained(true) - trained(false), 24 * 2 * 8 * (1024 + 1024));
    let text =
        "model: {preset: llama-2-7b}\ntraining: {lora: {rank: 8, vision_tower: true}}\nhardware: {gpu_type: H100}";
    let said = predicted(text).unwrap().assumptions;
    assert!(said.iter().any(|line| line.contains("training.lora.vision_tower")), "{said:?}");
}

fn tokens_of_an_image(preset: &str, side: u64) -> String {
    let text = format!("model: {{preset: {preset}, sequence_length: 8, image_size: {side}}}");
    predicted(&text).unwrap_err()
}

/// `pack_image_features` of transformers 4.57.6 over features of so many tiles: of a square image that fits one tile LLaVA-NeXT takes two
/// side by side and cuts off what was filled up, and of larger ones four; LLaVA-OneVision scales down what is more than nine tiles.
#[test]
fn tiles_become_the_tokens_that_transformers_packs() {
    let cases = [
        ("llava-1.6-vicuna-7b", [(100, 1176), (336, 1176), (337, 2928), (1000, 2928), (1344, 2928)]),
        ("llava-onevision-0.5b", [(384, 1485), (385, 3699), (1152, 7371), (1153, 7371), (4000, 7371)]),
    ];
    for (preset, sides) in cases {
        for (side, tokens) in sides {
            let said = tokens_of_an_image(preset, side);
            assert!(said.contains(&format!("take {tokens} tokens of each sample")), "{preset} {side}: {said}");
        }
    }
}

/// SigLIP over four tiles and the small image of one of 768 pixels: 729 patches of 588 numbers each, 26 layers of four matrices of
/// 1152 x 1152 and two of 1152 x 4304, scores twice; a projector of 1152 x 896 and 896 x 896 over all patches.
#[test]
fn each_tile_passes_the_tower() {
    let forward = |images: u64| {
        let model = format!("preset: llava-onevision-0.5b, sequence_length: 4096, images: {images}, image_size: 768");
        of(&model, "loss: hf").flops.forward.0
    };
    let layers = 26.0 * (2.0 * 729.0 * (4.0 * 1152.0 * 1152.0 + 2.0 * 1152.0 * 4304.0) + 4.0 * 729.0 * 729.0 * 1152.0);
    let ends = 2.0 * 729.0 * (588.0 * 1152.0 + 1152.0 * 896.0 + 896.0 * 896.0);
    let found = forward(1) - forward(0);
    assert!((found / (5.0 * (layers + ends)) - 1.0).abs() < 1e-9, "{found} is not {}", 5.0 * (layers + ends));
}

/// Two images of 448 pixels are one sequence of 2 x 1024 patches to Pixtral's tower, whose kernel multiplies all pairs: 24 layers of four
/// matrices of 1024 x 1024 and three of 1024 x 4096. Four patches become one of 1024 channels, then 5120 twice.
#[test]
fn pixtral_attends_over_all_images() {
    let forward = |images: u64| {
        let model = format!("preset: mistral-small-3.1-24b, sequence_length: 1024, images: {images}, image_size: 448");
        of(&model, "loss: hf").flops.forward.0
    };
    let (patches, tokens) = (2.0 * 1024.0, 2.0 * 256.0);
    let layers =
        24.0 * (2.0 * patches * (4.0 * 1024.0 * 1024.0 + 3.0 * 1024.0 * 4096.0) + 4.0 * patches * patches * 1024.0);
    let ends = 2.0 * patches * 588.0 * 1024.0 + 2.0 * tokens * (4096.0 * 1024.0 + 1024.0 * 5120.0 + 5120.0 * 5120.0);
    let found = forward(2) - forward(0);
    assert!((found / (layers + ends) - 1.0).abs() < 1e-9, "{found} is not {}", layers + ends);
}

/// PyTorch refuses `image_embeds[image_mask] = …` between fp32 and bf16, so that SmolVLM 2 is trained in one type; Idefics3's class, which
/// SmolVLM has, casts.
#[test]
fn smolvlm_2_is_trained_in_one_type() {
    let text = |preset: &str, precision: &str| {
        format!(
            "model: {{preset: {preset}, sequence_length: 1024}}\ntraining: {{precision: {precision}}}\nhardware: {{gpu_type: H100}}"
        )
    };
    let said = predicted(&text("smolvlm2-256m", "bf16-mixed")).unwrap_err();
    assert!(said.contains("training.precision") && said.contains("inputs_merger"), "{said}");
    for (preset, precision) in [("smolvlm2-256m", "bf16"), ("smolvlm2-256m", "fp32"), ("smolvlm-256m", "bf16-mixed")] {
        predicted(&text(preset, precision)).unwrap();
    }
}

#[test]
fn tiles_of_no_size_and_several_images_of_onevision_are_refused() {
    let several = predicted("model: {preset: llava-onevision-7b, sequence_length: 8192, images: 2}").unwrap_err();
    assert!(several.contains("cuts none into tiles"), "{several}");
    predicted("model: {preset: llava-1.6-mistral-7b, sequence_length: 8192, images: 2}\nhardware: {gpu_type: H100}")
        .unwrap();
    let broken = predicted(
        "model: {hf_config: {model_type: llava_next, architectures: [LlavaNextForConditionalGeneration],
          image_grid_pinpoints: [[336, 500]], text_config: {model_type: llama, hidden_size: 256, num_hidden_layers: 2,
          num_attention_heads: 4}, vision_config: {model_type: clip_vision_model, hidden_size: 64, num_hidden_layers: 2,
          num_attention_heads: 4, image_size: 336, patch_size: 14}}}",
    );
    assert!(broken.unwrap_err().contains("image_grid_pinpoints"));
}
