//! `--listen` and `--admin`: short forms, and ports that are in use.

use std::net::TcpListener;

use serde_json::Value;

use crate::deployment::Deployment;

/// Starts `conclave dev`, returns its listeners' URLs and kills it.
fn addresses(deployment: &Deployment, arguments: &[&str]) -> [String; 2] {
    let (mut process, line) = deployment.start_dev(arguments);
    process.kill().unwrap();
    process.wait().unwrap();
    let ready: Value = serde_json::from_str(&line)
        .unwrap_or_else(|error| panic!("{arguments:?}: {line:?}: {error}"));
    ["api", "admin"].map(|name| ready[name].as_str().unwrap().to_owned())
}

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

#[test]
fn a_port_alone_or_with_localhost_is_on_this_machine() {
    let deployment = Deployment::new();
    for prefix in ["", ":", "localhost:"] {
        let ports = [free_port(), free_port()];
        let [listen, admin] = ports.map(|port| format!("{prefix}{port}"));
        let expected = ports.map(|port| format!("http://127.0.0.1:{port}"));
        assert_eq!(
            addresses(&deployment, &["--listen", &listen, "--admin", &admin]),
            expected,
            "{prefix}"
        );
    }
    for wrong in ["localhost", "example.org:80", "65536"] {
        let refused = deployment.run_failing(2, &["serve", "--listen", wrong]);
        assert!(
            refused.contains("--listen") && refused.contains("localhost:3000"),
            "{refused}"
        );
        assert!(
            deployment
                .run_failing(2, &["step-down", "--admin", wrong])
                .contains("--admin")
        );
    }
}

#[test]
fn a_port_in_use_is_named_with_the_option_that_takes_a_free_one() {
    let deployment = Deployment::new();
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [first, second] = taken
        .each_ref()
        .map(|socket| socket.local_addr().unwrap().to_string());
    for mode in ["dev", "serve"] {
        let api = deployment.run_failing(1, &[mode, "--listen", &first, "--admin", "127.0.0.1:0"]);
        assert!(
            api.contains(&format!("http.listen: {first} cannot be bound")),
            "{api}"
        );
        assert!(
            api.contains("--listen 127.0.0.1:0 for a free port") && !api.contains("--admin"),
            "{api}"
        );
        let admin =
            deployment.run_failing(1, &[mode, "--listen", "127.0.0.1:0", "--admin", &first]);
        assert!(
            admin.contains(&format!("admin.listen: {first} cannot be bound")),
            "{admin}"
        );
        assert!(
            admin.contains("--admin 127.0.0.1:0 for a free port") && !admin.contains("--listen"),
            "{admin}"
        );
        let both = deployment.run_failing(1, &[mode, "--listen", &first, "--admin", &second]);
        assert!(
            both.contains("--listen 127.0.0.1:0 --admin 127.0.0.1:0 for free ports"),
            "{both}"
        );
        // An address that belongs to no interface: another port would not help.
        let foreign = deployment.run_failing(
            1,
            &[mode, "--listen", "192.0.2.1:80", "--admin", "127.0.0.1:0"],
        );
        assert!(
            foreign.contains("192.0.2.1:80 cannot be bound") && !foreign.contains("free port"),
            "{foreign}"
        );
    }
}
