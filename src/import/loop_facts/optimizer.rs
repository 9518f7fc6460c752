//! The optimizer that a script's loop makes.

use super::Script;
use crate::origin::Setting;
use crate::own_loop;
use crate::python::PassedArgument;

/// Optimizers that [`own_loop::optimizer`] does not know, by what their names have.
const OTHERS: [&str; 9] = ["Muon", "Shampoo", "SOAP", "Sophia", "GaLore", "LOMO", "APOLLO", "Prodigy", "LBFGS"];

/// Classes of `torch.optim`, with a plan's word, or their own where a plan has none.
const CLASSES: [(&str, &str); 10] = [
    ("AdamW", "adamw"),
    ("Adam", "adamw"),
    ("SGD", "sgd"),
    ("RMSprop", "rmsprop"),
    ("Adafactor", "adafactor"),
    ("Adagrad", "adagrad"),
    ("Adadelta", "adadelta"),
    ("Adamax", "adamax"),
    ("NAdam", "nadam"),
    ("RAdam", "radam"),
];

impl Script<'_> {
    pub(super) fn optimizer(&self) -> Option<Setting<&'static str>> {
        if OTHERS.iter().any(|part| self.text.contains(part)) {
            return None;
        }
        if let Some(word) = self.made_by_timm() {
            return Some(Setting::new(word, self.says("args.opt")));
        }
        if let Some(word) = self.made_by_template() {
            return Some(Setting::new(word, self.says("optimizer.type of its file")));
        }
        // Where it only names classes, one of them is made by a choice.
        let by_text = if self.picks_optimizer() { None } else { self.named_optimizer() };
        let word = by_text.or_else(|| self.followed_optimizer())?;
        Some(Setting::new(word, self.says("its optimizer")))
    }

    /// By the only class that its text calls.
    fn named_optimizer(&self) -> Option<&'static str> {
        Some(match own_loop::optimizer(self.text, self.reader, &|_| Some(false))? {
            "adamw" | "adam" | "adamw_hf" | "adamw_torch_fused" | "fusedadam" => "adamw",
            "adamw_8bit" | "adam_8bit" => "adamw-8bit",
            "sgd_momentum" => "sgd-momentum",
            word @ ("sgd" | "adafactor" | "lion" | "rmsprop") => word,
            _ => return None,
        })
    }

    /// By the calls that are followed to their end, whatever names they go by: `optim_classes[args.optim](…)`,
    /// `getattr(torch.optim, name)(…)`, an argument of the script's own function.
    fn followed_optimizer(&self) -> Option<&'static str> {
        let is_made = |class: &str| !self.reader.every_call(&[class]).is_empty();
        let mut made = CLASSES.iter().filter(|(class, _)| is_made(class));
        let (class, word) = made.next()?;
        if made.next().is_some() || !self.reader.makes(class) {
            return None;
        }
        if !["SGD", "RMSprop"].contains(class) {
            return Some(word);
        }
        let keeps = self.keeps_momentum(class)?;
        match (*class, keeps) {
            ("SGD", true) => Some("sgd-momentum"),
            // A plan's RMSprop has none.
            (_, true) => None,
            (_, false) => Some(word),
        }
    }

    /// Whether all calls of a class keep a momentum, or none does; nothing where one is not followed.
    fn keeps_momentum(&self, class: &str) -> Option<bool> {
        let told = |passed: PassedArgument| match passed {
            PassedArgument::Nothing => Some(false),
            PassedArgument::Plain(told) => told.value.as_f64().map(|share| share > 0.0),
            PassedArgument::Made(..) | PassedArgument::Open => None,
        };
        // `SGD(params, lr, momentum)`; RMSprop's third is another.
        let places: &[&str] = if class == "SGD" { &["momentum", "2"] } else { &["momentum"] };
        let calls = places
            .iter()
            .map(|place| self.reader.passed(&[class], place).into_iter().map(|(passed, _)| told(passed)).collect());
        let calls: Vec<Vec<bool>> = calls.collect::<Option<_>>()?;
        let mut each = (0..calls.first()?.len()).map(|call| calls.iter().any(|place| place.get(call) == Some(&true)));
        let first = each.next()?;
        each.all(|keeps| keeps == first).then_some(first)
    }

    /// victoresque/pytorch-template makes the class that its file of settings names (parse_config.py, `init_obj`).
    fn made_by_template(&self) -> Option<&'static str> {
        let calls = ["init_obj('optimizer', torch.optim", "init_obj(\"optimizer\", torch.optim"];
        let class = self.has(&calls).then(|| self.given.text("optimizer.type")).flatten()?.value;
        let (_, word) = CLASSES.iter().find(|(known, _)| *known == class)?;
        let keeps = self.given.number("optimizer.args.momentum").is_some_and(|share| share.value > 0.0);
        match (*word, keeps) {
            ("sgd", true) => Some("sgd-momentum"),
            ("rmsprop", true) => None,
            (word, _) => Some(word),
        }
    }

    /// timm's factory takes the name of the optimizer, and its momentum, from the arguments (timm/optim/_optim_factory.py,
    /// `optimizer_kwargs` and `create_optimizer_v2`).
    fn made_by_timm(&self) -> Option<&'static str> {
        let by_arguments = self.has(&["create_optimizer_v2("]) && self.has(&["optimizer_kwargs(cfg=args)"]);
        let named = by_arguments.then(|| self.reader.expression("args.opt")).flatten()?;
        let has_momentum = || self.reader.expression("args.momentum")?.as_f64().map(|share| share > 0.0);
        match named.as_str()?.to_lowercase().as_str() {
            "adam" | "adamw" => Some("adamw"),
            "sgd" | "momentum" => has_momentum()?.then_some("sgd-momentum"),
            "lion" => Some("lion"),
            "adafactor" => Some("adafactor"),
            _ => None,
        }
    }
}
