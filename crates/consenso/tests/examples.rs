//! Every example runs to its end: what people copy works.

macro_rules! examples {
    ($($name:ident),+) => {$(
        #[path = "../examples"]
        mod $name {
            mod $name;
            #[test]
            fn runs() {
                $name::main().expect("the example ends well");
            }
        }
    )+};
}

examples!(accounting, new_algorithm, own_transport, rows_in_memory, secret_shares);
