//! What people come to ask, each with the command that answers it: the end of `memwall --help`.

/// Questions and their commands.
const QUESTIONS: [(&str, &str); 10] = [
    ("Does it fit? How fast is it?", "predict plan.yaml"),
    ("What would make it fit?", "predict --bottlenecks plan.yaml"),
    ("What is the largest batch?", "predict --max-batch-size plan.yaml"),
    ("Where are the walls?", "sweep plan.yaml --vary batch_size=1..64x2"),
    ("What is the best plan?", "search plan.yaml"),
    ("Which operators are slow?", "roofline plan.yaml"),
    ("How do I begin a plan?", "new llama-3-8b --save mine.yaml"),
    ("Which plan has this script?", "import train.sh"),
    ("Why was memory exhausted?", "explain train.log --plan plan.yaml"),
    ("What does a word mean?", "explain ridge --plan plan.yaml"),
];

/// Them in two columns, and where more is said.
pub fn text() -> String {
    let line = |(question, command): &(&str, &str)| format!("  {question:28} memwall {command}\n");
    let lines: String = QUESTIONS.iter().map(line).collect();
    format!("Questions:\n{lines}\n`memwall plan.yaml` opens the dashboard. `memwall help` lists the topics.")
}
