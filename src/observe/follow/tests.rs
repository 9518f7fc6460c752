use std::fs;

use tokio::sync::mpsc;

use super::*;

/// A supervisor starts the next attempt into the same file: the first line names the process that has ended.
#[test]
fn lines_behind_the_end_of_the_run_are_anothers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let iteration = |step: u32| format!("iter {step}: loss 2.5, time 40.00ms, mfu 30.00%\n");
    fs::write(&path, iteration(3)).unwrap();
    let mut run = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let wanted = FollowOptions { log: Some(path.clone()), live: true, ..FollowOptions::default() };
    let mut follower = FollowThread::new(wanted, None, EVERY);
    follower.turn_to(Some(run.id()));
    let append = |step| fs::write(&path, fs::read_to_string(&path).unwrap() + &iteration(step)).unwrap();
    let step_after = |follower: &mut FollowThread, second: u64| {
        follower.look(&|| Moment(second * 1000));
        follower.news.progress.step.value().copied()
    };
    assert_eq!(step_after(&mut follower, 1), Some(3));
    append(4);
    run.kill().unwrap();
    run.wait().unwrap();
    while follower.watches[0].ended().is_none() {
        thread::yield_now();
    }
    assert_eq!(step_after(&mut follower, 2), Some(4));
    assert_eq!(step_after(&mut follower, 3), Some(4));
    // How it ended may come late.
    let add = |text: &str| fs::write(&path, fs::read_to_string(&path).unwrap() + text).unwrap();
    add("Traceback (most recent call last):\n  File \"train.py\", line 1, in <module>\nValueError: no data\n");
    assert_eq!(step_after(&mut follower, 4), Some(4));
    assert!(follower.news.exception.as_ref().is_some_and(|said| said.contains("ValueError")), "{:?}", follower.news);
    append(5);
    assert_eq!(step_after(&mut follower, 5), Some(4));
    assert!(follower.news.exception.is_some());
}

#[test]
fn an_empty_log_is_told_from_one_that_nobody_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    fs::write(&log, "").unwrap();
    let (sender, mut receiver) = mpsc::channel(4);
    let wanted = FollowOptions { log: Some(log.clone()), pid: Some(7), live: false, pattern: None };
    let _following = follow(wanted, |_| None, || Moment(9), sender).unwrap();
    let mut why = || loop {
        if let Some(why) = receiver.blocking_recv().unwrap().no_log {
            return why.to_string();
        }
    };
    assert!(why().contains("empty so far"));
    fs::write(&log, "loading the data\n").unwrap();
    assert!(why().contains("no line of a known format"));
}

#[test]
fn who_follows_nothing_sleeps_and_is_woken_by_what_is_attached_and_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let hooks = folder.path().join("hooks").into_os_string();
    let variable = move |name: &str| (name == super::super::hook::HOOK_DIRECTORY_VARIABLE).then(|| hooks.clone());
    let (sender, mut receiver) = mpsc::channel(4);
    let mut following =
        follow(FollowOptions { live: true, ..FollowOptions::default() }, variable, || Moment(9), sender).unwrap();
    let start = std::time::Instant::now();
    following.attend(Some(std::process::id()));
    assert_eq!(receiver.blocking_recv().unwrap().pid, Some(std::process::id()));
    following.attend(None);
    assert_eq!(receiver.blocking_recv().unwrap().pid, None);
    drop(following);
    assert!(receiver.blocking_recv().is_none());
    assert!(start.elapsed() < IDLE_EVERY / 2, "{:?}", start.elapsed());
}

#[test]
fn the_log_is_followed_and_the_attached_process_may_change() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    fs::write(&log, "iter 3: loss 2.5, time 40.00ms, mfu 30.00%\n").unwrap();
    let (sender, mut receiver) = mpsc::channel(4);
    let hooks = folder.path().join("hooks").into_os_string();
    let wanted = FollowOptions { log: Some(log), pid: Some(7), live: true, pattern: None };
    let variable = move |name: &str| (name == super::super::hook::HOOK_DIRECTORY_VARIABLE).then(|| hooks.clone());
    let mut following = follow(wanted, variable, || Moment(9), sender).unwrap();
    let first = receiver.blocking_recv().unwrap();
    assert_eq!((first.pid, first.progress.step.value(), first.deaf), (Some(7), Some(&3), None));
    let socket = following.socket.clone().unwrap();
    assert!(socket.exists());
    following.attend(None);
    assert_eq!(receiver.blocking_recv().unwrap().pid, None);
    drop(following);
    assert!(!socket.exists());
    assert!(receiver.blocking_recv().is_none());
}

/// A shell runs two trainings with a pause between them, all into one log.
#[test]
fn the_figures_of_a_shells_training_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // Each job says its steps after a second, and goes on until it is told to end. It is no shell.
    let until_there = |file: &str| format!("while [ ! -e {file} ]; do sleep 0.05; done");
    let job = |lines: &str, end: &str| {
        let wait = until_there(end);
        format!("awk 'BEGIN {{ system(\"sleep 1\"); printf \"{lines}\"; fflush(); system(\"{wait}\") }}'; ")
    };
    let script = [
        job("step 10/20 loss 2.5\\nstep 11/20 loss 2.4\\n", "end"),
        format!("{}; ", until_there("go")),
        job("step 1 loss 3.5\\n", "never"),
    ];
    let output = fs::File::create(&log).unwrap();
    let mut shell = std::process::Command::new("sh");
    let mut shell = shell.args(["-c", &script.concat()]).current_dir(folder.path()).stdout(output).spawn().unwrap();
    let wanted = FollowOptions { live: true, ..FollowOptions::default() };
    let mut follower = FollowThread::new(wanted, None, EVERY);
    follower.turn_to(Some(shell.id()));
    let start = std::time::Instant::now();
    let until = |follower: &mut FollowThread, what: &str, wanted: &dyn Fn(&RunNews) -> bool| {
        let began = std::time::Instant::now();
        while !wanted(&follower.news) {
            assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", follower.news);
            thread::sleep(Duration::from_millis(50));
            let now = Moment(u64::try_from(start.elapsed().as_millis()).unwrap());
            follower.look(&|| now);
        }
    };
    let step = |news: &RunNews| news.progress.step.value().copied();
    until(&mut follower, "the first", &|news| step(news) == Some(11));
    assert_eq!(follower.news.progress.total_steps.value(), Some(&20));
    fs::write(folder.path().join("end"), "").unwrap();
    until(&mut follower, "its end", &|news| step(news).is_none());
    assert_eq!(follower.news.jobs_over, 1);
    assert!(follower.news.no_log.as_ref().is_some_and(|why| why.to_string().contains("has ended")));
    fs::write(folder.path().join("go"), "").unwrap();
    until(&mut follower, "the second", &|news| step(news) == Some(1));
    assert_eq!((follower.news.progress.total_steps.value(), follower.news.no_log.as_ref()), (None, None));
    fs::write(folder.path().join("never"), "").unwrap();
    shell.wait().unwrap();
}
