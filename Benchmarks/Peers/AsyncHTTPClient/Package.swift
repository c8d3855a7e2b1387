// swift-tools-version: 6.2
import PackageDescription

let dependencies: [Target.Dependency] = [
  .product(name: "AsyncHTTPClient", package: "async-http-client"),
  .product(name: "BenchmarkSupport", package: "Measurement"),
]

// A package of its own: only `Benchmarks/run` builds it, and nothing of ours depends on it.
let package = Package(
  name: "AsyncHTTPClientPeer",
  dependencies: [
    .package(url: "https://github.com/swift-server/async-http-client", exact: "1.37.0"),
    .package(name: "Measurement", path: "../../Measurement"),
  ],
  targets: [
    .executableTarget(name: "getloop", dependencies: dependencies, swiftSettings: [.swiftLanguageMode(.v6)]),
    .executableTarget(name: "transfer", dependencies: dependencies, swiftSettings: [.swiftLanguageMode(.v6)]),
  ]
)
