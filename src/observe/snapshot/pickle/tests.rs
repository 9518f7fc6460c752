use super::*;

const ENOUGH: Bytes = Bytes(200 << 20);

fn refused(bytes: &[u8]) -> String {
    Pickle::read(bytes, ENOUGH).err().map(|why| why.to_string()).unwrap_or_else(|| panic!("{bytes:?} was read"))
}

#[test]
fn what_python_writes_is_read_in_every_protocol() {
    // pickle.dumps({"a": [1, -2, 3.5, None, True], "b": ("x", 300, 70000, 2**40)}, protocol) for 0, 2 and 4.
    let zero =
        b"(dp0\nVa\np1\n(lp2\nI1\naI-2\naF3.5\naNaI01\nasVb\np3\n(Vx\np4\nI300\nI70000\nL1099511627776L\ntp5\ns.";
    let two = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffG@\x0c\x00\x00\x00\x00\x00\x00N\x88eX\x01\x00\x00\x00bq\x03(X\x01\x00\x00\x00xq\x04M,\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01tq\x05u.";
    let four = b"\x80\x04\x95?\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xffG@\x0c\x00\x00\x00\x00\x00\x00N\x88e\x8c\x01b\x94(\x8c\x01x\x94M,\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01t\x94u.";
    for bytes in [&zero[..], two, four] {
        let pickle = Pickle::read(bytes, ENOUGH).unwrap();
        let list: Vec<&Value> = pickle.items(pickle.get(pickle.root(), "a")).collect();
        assert_eq!(
            list,
            [&Value::Integer(1), &Value::Integer(-2), &Value::Float(3.5), &Value::Nothing, &Value::Truth(true)]
        );
        let tuple: Vec<&Value> = pickle.items(pickle.get(pickle.root(), "b")).collect();
        assert_eq!(pickle.text(Some(tuple[0])).as_deref(), Some("x"));
        assert_eq!(tuple[1..], [&Value::Integer(300), &Value::Integer(70_000), &Value::Integer(1 << 40)]);
    }
}

#[test]
fn what_would_run_code_is_refused() {
    // pickle.dumps of an object whose __reduce__ is os.system("id"), protocols 0 and 4.
    for bytes in [&b"cposix\nsystem\n(S'id'\ntR."[..], b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R."] {
        assert!(refused(bytes).contains("asks for code to be run"), "{}", refused(bytes));
    }
}

#[test]
fn bombs_stay_small() {
    // Lists of ten references to the list before, thirty deep: 10^30 values if they were copied.
    let mut bomb = b"\x80\x02]q\x00".to_vec();
    for depth in 0..30_u8 {
        bomb.push(b'(');
        bomb.extend([b'h', depth].repeat(10));
        bomb.extend([b'l', b'q', depth + 1]);
    }
    bomb.push(b'.');
    assert!(Pickle::read(&bomb, ENOUGH).is_ok());
    // A million lists in each other.
    let deep = [&b"]".repeat(1_000_000)[..], &b"a".repeat(999_999), b"."].concat();
    assert!(Pickle::read(&deep, ENOUGH).is_ok());
    // A text that claims more bytes than there are.
    assert_eq!(refused(b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"), "it is cut off");
}

#[test]
fn what_is_cut_off_or_garbled_is_refused() {
    let good = b"\x80\x02}q\x00(X\x01\x00\x00\x00aK\x01u.";
    for end in 0..good.len() {
        refused(&good[..end]);
    }
    for bytes in [&b"."[..], b"t.", b"0.", b"K\x01a.", b"}K\x01s.", b"h\x05.", b"(K\x01d.", b"\xff", b"Ix\n."] {
        refused(bytes);
    }
}

#[test]
fn a_pickle_takes_no_more_memory_than_it_may() {
    // A thousand lists of one number each: a value is 16 bytes at least, a list has a box besides.
    let lists = [b"(", &b"]K\x01a".repeat(1000)[..], b"l."].concat();
    assert!(Pickle::read(&lists, Bytes(1000 * 32)).is_err());
    assert!(Pickle::read(&lists, Bytes(1000 * 200)).is_ok());
    assert_eq!(size_of::<Value>(), 16);
}
