// swift-tools-version: 6.2
import PackageDescription

let dependencies: [Target.Dependency] = [.product(name: "BenchmarkSupport", package: "Measurement")]

// A package of its own: only `Benchmarks/run` builds it, and nothing of ours depends on it.
let package = Package(
  name: "URLSessionPeer",
  dependencies: [.package(name: "Measurement", path: "../../Measurement")],
  targets: [
    .executableTarget(name: "getloop", dependencies: dependencies, swiftSettings: [.swiftLanguageMode(.v6)]),
    .executableTarget(name: "transfer", dependencies: dependencies, swiftSettings: [.swiftLanguageMode(.v6)]),
  ]
)
