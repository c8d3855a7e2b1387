// swift-tools-version: 6.2
import PackageDescription

let session = Target.Dependency.product(name: "LupineSession", package: "Lupine")
let support = Target.Dependency.product(name: "BenchmarkSupport", package: "Measurement")
let settings = [SwiftSetting.swiftLanguageMode(.v6)]

// A package of its own, so that peers never enter ours; it sees products only, as those do who embed Lupine.
let package = Package(
  name: "LupineBenchmarks",
  dependencies: [.package(name: "Lupine", path: ".."), .package(path: "Measurement")],
  targets: [
    .executableTarget(name: "GetLoop", dependencies: [support, session], swiftSettings: settings),
    .executableTarget(name: "Transfer", dependencies: [support, session], swiftSettings: settings),
    .executableTarget(
      name: "FormUpload", dependencies: [support, .product(name: "Lupine", package: "Lupine")],
      swiftSettings: settings),
    .executableTarget(
      name: "ManagerLoop", dependencies: [support, .product(name: "Lupine", package: "Lupine")],
      swiftSettings: settings),
    .executableTarget(name: "IdleConnections", dependencies: [support, session], swiftSettings: settings),

    // The smallest programs that embed Lupine: what they link, how big they are and whether they run in an empty chroot is checked by
    // `.ci/check-linkage` and `.ci/check-static`; QuickStart is the README's (`.ci/check-readme`).
    .executableTarget(
      name: "WireProbe", dependencies: [.product(name: "LupineWire", package: "Lupine")], swiftSettings: settings),
    .executableTarget(name: "SessionProbe", dependencies: [session], swiftSettings: settings),
    .executableTarget(
      name: "QuickStart", dependencies: [session, .product(name: "LupineTesting", package: "Lupine")],
      swiftSettings: settings),
  ]
)
