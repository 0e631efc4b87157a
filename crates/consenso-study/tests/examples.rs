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

examples!(linear_constraint, own_csv, reading_a_record);
