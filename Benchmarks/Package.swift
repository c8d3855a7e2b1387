// swift-tools-version: 6.2
import PackageDescription

let session = Target.Dependency.product(name: "LupineSession", package: "Lupine")
let settings = [SwiftSetting.swiftLanguageMode(.v6)]

// A package of its own, so that peers never enter ours; it sees products only.
let package = Package(
  name: "LupineBenchmarks",
  dependencies: [.package(name: "Lupine", path: "..")],
  targets: [
    .target(name: "CAllocator"),
    .target(name: "BenchmarkSupport", dependencies: ["CAllocator"], swiftSettings: settings),
    .executableTarget(name: "GetLoop", dependencies: [session], swiftSettings: settings),
    .executableTarget(name: "Transfer", dependencies: ["BenchmarkSupport", session], swiftSettings: settings),
    .executableTarget(
      name: "FormUpload", dependencies: ["BenchmarkSupport", .product(name: "Lupine", package: "Lupine")],
      swiftSettings: settings),
    .executableTarget(
      name: "ManagerLoop", dependencies: ["BenchmarkSupport", .product(name: "Lupine", package: "Lupine")],
      swiftSettings: settings),
    .executableTarget(name: "IdleConnections", dependencies: ["BenchmarkSupport", session], swiftSettings: settings),
  ]
)
