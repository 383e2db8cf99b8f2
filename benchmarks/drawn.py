"""Draws ads as real pools have them: no two have to agree in names, order or values.

A pool runs several versions of several daemons, so its ads differ in their names, and not only in
their values. Each ad is a subset of the names that its daemon may publish, in the daemon's
alphabetical order or, from an older daemon, in an order of its own. A value is a constant of the
pool, a constant of a host, or new in each ad (counters, times, names of slots and jobs).

>>> first, second = slots(2, seed=7)
>>> 350 <= len(first) <= 500, list(first) == list(second)
(True, False)
>>> print(old({"Cpus": "8", "ChildCpus": ["1", "1"], "Start": "Cpus > 1"}), end="")
Cpus = 8
ChildCpus = { 1,1 }
Start = Cpus > 1

All functions are deterministic by their seed. The names are those that the manuals of HTCondor,
glideinWMS and gLite document, and some such as sites and users add. ``python benchmarks/drawn.py``
prints what the ads look like.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final

import attrs

Value = str | list[str] | dict[str, str]
"""The text of an expression in the new syntax, or a list or a nested ad of such texts."""

Ad = dict[str, Value]


def _words(text: str) -> list[str]:
    return text.split()


# --- names, by the kind of their values ----------------------------------------------------------

_WORDS: Final = (
    "Entry", "Site", "Memory", "Images", "Wrapper", "Squid", "Proxy", "Tokens", "Scratch",
    "Modules",     "Python", "Storage", "Network", "Security", "Monitor", "Cleanup",
)  # fmt: skip

# Flags of a pool: nearly all hosts agree.
_FLAGS: Final = _words("""
AcceptedWhileDraining CanHibernate CpuBusy HasCheckpointing HasDocker HasDockerURL
HasEncryptExecuteDirectory HasFileTransfer HasIOProxy HasJava HasJICLocalConfig HasJICLocalStdin
HasJobDeferral HasJobTransferPlugins HasMPI HasPerFileEncryption HasReconnect HasRemoteSyscalls
HasRotationalScratch HasSandboxImage HasSelfCheckpointTransfers HasSIF HasSingularity HasTDP
HasTransferInputRemaps HasUserNamespaces HasVM HasWindowsRunAsOwner HasContainer IsLocalStartd
IsOwner IsValidCheckpointPlatform IsWakeAble IsWakeOnLanEnabled IsWakeOnLanSupported IsDesktop
has_avx has_avx2 has_avx512dq has_avx512f has_sse4_1 has_sse4_2 has_ssse3 Unhibernate
WindowsSecurity VM_Networking VM_HardwareVT AllowBenchmarks StarterSupportsSSH WantVacate
GLIDEIN_Monitoring_Enabled GLIDEIN_Is_Monitor GLIDEIN_PARALLEL_UPDATES GLIDEIN_USE_PRIVATE_NET
GLIDEIN_REQUIRE_GLEXEC_USE GLIDEIN_REQUIRE_VOMS GLIDEIN_GLEXEC_Use_Ok HAS_CVMFS HAS_SQUID
HAS_CVMFS_oasis_opensciencegrid_org HAS_CVMFS_cms_cern_ch HAS_CVMFS_atlas_cern_ch
HAS_CVMFS_singularity_opensciencegrid_org HAS_CVMFS_stash_osgstorage_org HAS_TIMEOUT HAS_PYTHON3
HAS_CVMFS_lhcb_cern_ch HAS_CVMFS_alice_cern_ch HAS_CVMFS_icecube_opensciencegrid_org HAS_TCSH
HAS_CVMFS_ligo_osgstorage_org HAS_FILE_usr_lib64_libstdc___so_6 HAS_GIT HAS_RSYNC HAS_WGET HAS_CURL
HAS_SINGULARITY OSG_SINGULARITY_EXTERNAL SINGULARITY_CAN_USE_SIF GWMS_SINGULARITY_CACHED_IMAGES_OK
""")

# Policies: few texts in a pool.
_POLICIES: Final[dict[str, tuple[str, ...]]] = {
    "Start": (
        "START && (WithinResourceLimits)",
        'true && (WithinResourceLimits) && (TARGET.Owner =!= "nobody")',
        (
            "(IsOwner =!= true) && ifThenElse(TARGET.WantGPU =?= true, MY.GPUs > 0, true) && "
            "(time() < MY.GLIDEIN_ToRetire) && (TARGET.RequestMemory <= MY.Memory) && ("
            + " || ".join(f'(TARGET.ProjectName == "example.{what}")' for what in _WORDS)
            + ")"
        ),
    ),
    "SITE_START": (
        (
            '(stringListMember(TARGET.Owner, "ada,grace,edsger") || TARGET.JobUniverse == 5) && '
            "(TARGET.RequestCpus ?: 1) <= Cpus"
        ),
    ),
    "Requirements": (
        "START && (WithinResourceLimits)",
        "(START) && (IsValidCheckpointPlatform) && (WithinResourceLimits)",
    ),
    "WithinResourceLimits": (
        (
            "(MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus && MY.Memory > 0 && "
            "TARGET.RequestMemory <= MY.Memory && MY.Disk > 0 && TARGET.RequestDisk <= MY.Disk && "
            "(TARGET.RequestGPUs is undefined || MY.GPUs >= TARGET.RequestGPUs))"
        ),
        (
            "(ifThenElse(TARGET._cp_orig_RequestCpus isnt undefined, TARGET.RequestCpus <= Cpus, "
            "MY.ConsumptionCpus <= MY.Cpus) && ifThenElse(TARGET._cp_orig_RequestMemory isnt "
            "undefined, TARGET.RequestMemory <= MY.Memory, MY.ConsumptionMemory <= MY.Memory))"
        ),
    ),
    "IsValidCheckpointPlatform": (
        (
            "(TARGET.JobUniverse =!= 1 || (MY.CheckpointPlatform =!= undefined && "
            "(TARGET.LastCheckpointPlatform =?= MY.CheckpointPlatform || "
            "TARGET.NumCkpts == 0)))"
        ),
    ),
    "GLIDEIN_Entry_Start": (
        " && ".join(f"(TARGET.WantGLIDEIN_{what} =!= true || MY.HAS_{what})" for what in _WORDS),
        " || ".join(f'(stringListMember("{what}", TARGET.DESIRED_Sites))' for what in _WORDS),
    ),
    "GLIDECLIENT_Group_Start": (
        "ifThenElse(DESIRED_Sites isnt undefined, stringListMember(GLIDEIN_Site, DESIRED_Sites), "
        "undefined) && (TARGET.RequestCpus ?: 1) <= Cpus && "
        + " && ".join(f'(TARGET.x509UserProxyVOName != "{what}")' for what in _WORDS),
    ),
    "Rank": ("0.0", "TARGET.JobPrio + 10 * (TARGET.Owner == MY.RemoteOwner)"),
    "SlotWeight": ("Cpus", "max({ Cpus, real(Memory) / 2048 })"),
    "NonCondorLoadAvg": ("((LoadAvg - CondorLoadAvg) >= 0.5)",),
    "SITE_BUSY": ("CpuBusy && CpuBusyTime > 5 * 60",),
    "MaxJobRetirementTime": ("0", "ifThenElse(TARGET.WantGPU =?= true, 86400, 3 * 3600)"),
    "MachineMaxVacateTime": ("10 * 60", "600"),
    "SITE_PARTS": ("size(ChildCpus ?: { })",),
    "ConsumptionCpus": ("quantize(TARGET.RequestCpus,{ 1 })",),
    "ConsumptionMemory": ("quantize(TARGET.RequestMemory,{ 128 })",),
    "ConsumptionDisk": ("quantize(TARGET.RequestDisk,{ 1024 })",),
    "GLIDEIN_DAEMON_SHUTDOWN": ("MyCurrentTime + GLIDEIN_Max_Walltime - 3600",),
    "SITE_PREEMPT": ('(Activity == "Suspended") && (CurrentTime - EnteredCurrentActivity > 600)',),
    "SITE_KILL": ("(CurrentTime - EnteredCurrentActivity) > MachineMaxVacateTime",),
    "CurbMatchmaking": ("RecentDaemonCoreDutyCycle > 0.98",),
    "SITE_OFFLINE": ("(CurrentTime - LastHeardFrom) > 300 && HibernationLevel > 0",),
}  # fmt: skip

# Texts that are the same on all hosts of a version or of a site.
_POOL_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "MyType": ("Machine",),
    "TargetType": ("Job",),
    "Arch": ("X86_64", "X86_64", "aarch64"),
    "OpSys": ("LINUX",),
    "OpSysAndVer": ("AlmaLinux9", "CentOS7", "Debian12"),
    "OpSysLegacy": ("LINUX",),
    "OpSysLongName": ("AlmaLinux release 9.4 (Seafoam Ocelot)", "CentOS Linux release 7.9.2009"),
    "OpSysName": ("AlmaLinux", "CentOS", "Debian"),
    "OpSysShortName": ("AlmaLinux", "CentOS", "Debian"),
    "UtsnameMachine": ("x86_64",),
    "UtsnameSysname": ("Linux",),
    "UtsnameRelease": ("5.14.0-427.13.1.el9_4.x86_64", "3.10.0-1160.118.1.el7.x86_64"),
    "UtsnameVersion": ("#1 SMP PREEMPT_DYNAMIC Wed May 1 19:11:28 UTC 2024",),
    "Microarch": ("x86_64-v2", "x86_64-v3", "x86_64-v4"),
    "FileSystemDomain": ("example.org", "cluster.example.org"),
    "UidDomain": ("example.org",),
    "JavaVendor": ("Red Hat, Inc.",),
    "JavaVersion": ("11.0.22", "1.8.0_402"),
    "JavaSpecificationVersion": ("11", "1.8"),
    "DockerVersion": ("Docker version 24.0.7, build afdd53b",),
    "SingularityVersion": ("apptainer version 1.3.1-1.el9", "singularity version 3.8.7-1.el7"),
    "HasFileTransferPluginMethods": ("data,ftp,file,box,gdrive,onedrive,http,https,osdf,stash,s3",),
    "StarterAbilityList": (
        (
            "HasFileTransfer,HasJICLocalConfig,HasJICLocalStdin,HasJobDeferral,HasMPI,HasReconnect,"
            "HasRemoteSyscalls,HasTDP,HasTransferInputRemaps,HasVM"
        ),
    ),
    "MachineResources": ("Cpus Memory Disk Swap", "Cpus Memory Disk Swap GPUs"),
    "HibernationState": ("NONE",),
    "HibernationSupportedStates": ("S3,S4,S5", "S5"),
    "WakeOnLanEnabledFlags": ("NONE", "Magic Packet"),
    "WakeOnLanSupportedFlags": ("NONE", "Magic Packet"),
    "SubnetMask": ("255.255.240.0",),
    "AuthenticationMethod": ("FS", "IDTOKENS", "SSL"),
    "AuthenticatedIdentity": ("condor@example.org", "condor_pool@example.org"),
    "VM_Type": ("kvm",),
    "VM_GuestMem": ("none",),
    "SINGULARITY_PATH": ("/usr/bin/singularity", "/cvmfs/oasis.example.org/bin/singularity"),
    "SINGULARITY_MODE": ("privileged", "unprivileged"),
    "SINGULARITY_IMAGE_DEFAULT": ("/cvmfs/singularity.example.org/htc/el9:latest",),
    "SINGULARITY_BINDPATH": ("/cvmfs,/etc/hosts,/etc/localtime,/scratch",),
    "GLIDEIN_Singularity_Use": ("PREFERRED", "REQUIRED", "DISABLE_GWMS"),
    "GLIDEIN_Site": ("Bologna", "Padova", "Lyon"),
    "GLIDEIN_CMSSite": ("T2_XX_Bologna", "T2_XX_Padova"),
    "GLIDEIN_ResourceName": ("Example-CE1", "Example-CE2"),
    "GLIDEIN_Country": ("IT", "FR"),
    "GLIDEIN_Factory": ("gfactory-1", "gfactory-2"),
    "GLIDEIN_Name": ("v1_0", "v3_9"),
    "GLIDEIN_Gatekeeper": ("ce01.example.org ce01.example.org:9619",),
    "GLIDEIN_GridType": ("condor", "batch slurm"),
    "GLIDEIN_Supported_VOs": ("CMS,OSGVO,Example", "Example"),
    "GLIDEIN_SEs": ("se01.example.org", "se01.example.org,se02.example.org"),
    "GLIDEIN_Schedd": ("schedd_glideins2@gfactory.example.org",),
    "GLIDEIN_Collector": ("collector.example.org:9618",),
    "GLIDEIN_Resource_Slots": ("Iotokens,80,,type=main",),
    "GLIDEIN_Tmp_Dir": ("/scratch/glide/tmp",),
    "GLIDEIN_TrustDomain": ("grid",),
    "GLIDEIN_Entry_Name": ("Example_T2_Bologna_ce01", "Example_T2_Padova_ce02_multicore"),
    "GLIDECLIENT_Name": ("frontend-1.main", "frontend-1.gpu"),
    "GLIDECLIENT_Group": ("main", "gpu", "overflow"),
    "SITE_START_COMMENT": (r"queue \"long\" only, see C:\\glidein\\notes", r"\"any\" queue"),
    "GLIDEIN_Proxy_URL": ("http://squid.example.org:3128",),
    "GLIDEIN_Glexec_Use": ("NEVER", "OPTIONAL"),
    "GLIDEIN_SlotsLayout": ("partitionable", "fixed"),
    "GLIDEIN_OVERLOAD_ENABLED": ("disabled",),
    "GLIDEIN_SINGULARITY_REQUIRE": ("NEVER",),
    "CONDOR_VERSION": ("default",),
    "OSG_SITE_NAME": ("Example_Site",),
    "STASHCP_VERIFIED": ("true",),
    "HAS_CVMFS_REVISIONS": ("cms:132211,oasis:41522,sft:24013",),
    "STARTD_CRON_AutoPublish": ("Never", "If_Changed"),
    "SITE_CONCURRENCY": ("none",),
    "GLIDEIN_VARIABLES": (
        ",".join(f"GLIDEIN_{what}_{number}" for what in _WORDS for number in range(5)),
        ",".join(f"GLIDEIN_{what}" for what in _WORDS),
    ),
    "GLIDEIN_CVMFS_REPOSITORIES": (
        ",".join(f"{what.lower()}.example.org:/cvmfs/{what.lower()}" for what in _WORDS),
    ),
    "STARTD_PROVIDER_FLAGS": (" ".join(f"--{what.lower()}=/etc/condor/{what}" for what in _WORDS),),
    "SITE_SOFTWARE": (" ".join(f"VO-example-{what}-{len(what)}.0" for what in 3 * _WORDS),),
    "CpuFlags": (" ".join(f"{what.lower()}{number}" for what in _WORDS for number in range(3)),),
    "CVMFS_VERSION": ("2.11.2.0", "2.10.1.0"),
    "GLIBC_VERSION": ("2.34", "2.17"),
    "SITE_CUDA_POLICY": ("none",),
    "ContainerRuntimeName": ("apptainer", "docker"),
}

# Numbers of a host: as many as it has cores, memory, and so on.
_HOST_NUMBERS: Final = _words("""
CpuCacheSize CpuFamily CpuModelNumber DetectedCpus DetectedMemory DetectedGPUs KFlops Mips
OpSysMajorVer OpSysVer TotalCpus TotalDisk TotalMemory TotalGPUs TotalSlotCpus TotalSlotMemory
TotalSlotDisk TotalSlotGPUs TotalSlots TotalVirtualMemory TotalSwap ClockDay TimeToLive
HibernationLevel JavaMFlops DaemonStartTime DaemonLastReconfigTime LastBenchmark LastDrainStartTime
LastDrainStopTime GLIDEIN_ClusterId GLIDEIN_ProcId GLIDEIN_Job_Max_Time GLIDEIN_Max_Walltime
GLIDEIN_MaxMemMBs GLIDEIN_CPUS GLIDEIN_MAX_IDLE_TIME GLIDEIN_Graceful_Shutdown GLIDEIN_Report_Failed
JobsRunning_Max CPUS_Reserved MemoryReserved HOST_Uptime SwapReserved NetworkSpeedMb ScratchTotal
InodesTotal NumaNodes CoresPerSocket Sockets ThreadsPerCore CpuMHz MODIFY_REQUEST_Age CVMFS_Quota_MB
CVMFS_Cache_MB OSG_NODE_AGE KernelMajor KernelMinor GLIDEIN_ToDie GLIDEIN_ToRetire
GLIDEIN_Retire_Time_Spread GLIDECLIENT_ReqNode GLIDEIN_Version GLIDEIN_MAX_TAIL GLIDEIN_MAX_IDLE
CUDAGlobalMemoryMb CUDAComputeUnits CUDACoresPerCU CUDAClockMhz VM_Memory VM_AvailNum MaxVacateTime
NUM_CPUS_CONFIGURED OSG_NODE_VALIDATED BootTime CVMFS_cms_cern_ch_REVISION CVMFS_oasis_REVISION
CVMFS_sft_cern_ch_REVISION ScratchReserved
""")

_HOST_NAMES: Final[dict[str, str]] = {
    "Machine": "{host}",
    "UtsnameNodename": "{host}",
    "StartdIpAddr": "<{ip}:9618?addrs={ip}-9618&alias={host}&noUDP&sock=startd_{sock}>",
    "MyAddress": "<{ip}:9618?addrs={ip}-9618&alias={host}&noUDP&sock=startd_{sock}>",
    "AddressV1": r"{{[ p=\"primary\"; a=\"{ip}\"; port=9618; n=\"Internet\"; alias=\"{host}\"; "
    r"spid=\"startd_{sock}\"; noUDP=true; ], [ p=\"IPv4\"; a=\"{ip}\"; port=9618; "
    r"n=\"Internet\"; alias=\"{host}\"; spid=\"startd_{sock}\"; noUDP=true; ]}}",
    "MasterIpAddr": "<{ip}:9618?addrs={ip}-9618&alias={host}&noUDP&sock=master_{sock}>",
    "HardwareAddress": "ac:1f:6b:{mac}",
    "GLIDEIN_MASTER_NAME": "glidein_{number}_{sock}@{host}",
    "GLIDEIN_Condor_Token_ID": "gltoken-{sock}-{number}",
    "GLIDEIN_LocalName": "{host}_{number}",
    "CpuModel": "Intel(R) Xeon(R) Gold {number} CPU @ 2.{kind}0GHz",
    "CUDADeviceName": "NVIDIA A{kind}0-PCIE-40GB",
    "GPUs_DriverVersion": "12.{kind}",
    "GLIDEIN_Node_Path": ":".join(f"/scratch/{{host}}/{what.lower()}/bin" for what in _WORDS),
    "SITE_Node_Tags": ", ".join(f"{{number}}-{what.lower()}" for what in _WORDS),
    "SSHToJobKey": "/etc/condor/keys/{host}.pub",
    "ExecutePath": "/scratch/{host}/execute",
    "LogPath": "/var/log/condor/{host}",
}

# Counters: idle in most ads, else new.
_COUNTERS: Final = _words("""
JobPreemptions JobRankPreemptions JobUserPrioPreemptions JobStarts RecentJobPreemptions
RecentJobRankPreemptions RecentJobStarts RecentJobUserPrioPreemptions NumDynamicSlots NumPids
JobBusyTimeCount JobDurationCount RecentJobBusyTimeCount RecentJobDurationCount UpdatesLost
TotalTimeBackfillBusy TotalTimeBackfillIdle TotalTimeBackfillKilling TotalTimeClaimedBusy
TotalTimeClaimedIdle TotalTimeClaimedRetiring TotalTimeClaimedSuspended TotalTimeClaimedVacating
TotalTimeDrainedIdle TotalTimeDrainedRetiring TotalTimeMatchedIdle TotalTimeOwnerIdle
TotalTimePreemptingKilling TotalTimePreemptingVacating TotalTimeUnclaimedBenchmarking
TotalTimeUnclaimedIdle TotalJobRunTime TotalJobSuspendTime TotalClaimRunTime TotalClaimSuspendTime
ExpectedMachineGracefulDrainingBadput ExpectedMachineQuickDrainingBadput CpuBusyTime
LastFetchWorkCompleted LastFetchWorkSpawned NextFetchWorkDelay DockerCachedImageSizeMb DrainedSlots
OfflineUniverses NumOfflineGPUs BadGPUs ConsoleUsers ContainerCount RetirementTimeRemaining
""")

_DAEMON_CORE: Final = [
    f"{recent}DC{what}"
    for recent in ("", "Recent")
    for what in (
        *(f"{kind}Count" for kind in ("PumpCycle", "NameResolve", "UdpQueueDepth", "Fsync")),
        *(f"Command_{kind}_Runtime" for kind in ("ACTIVATE_CLAIM", "REQUEST_CLAIM", "ALIVE")),
        "DebugOuts", "Signals", "TimersFired", "SockMessages", "PipeMessages", "AsyncPipe",
        "SockBytes", "PipeBytes", "Commands", "ForkWorkers",
    )
]  # fmt: skip

_REALS: Final = [
    "DaemonCoreDutyCycle", "RecentDaemonCoreDutyCycle", "MonitorSelfCPUUsage", "CurrentRank",
    *(
        f"{recent}{what}{statistic}"
        for recent in ("", "Recent")
        for what in ("JobBusyTime", "JobDuration", "DCPumpCycle", "DCNameResolve", "DCFsync")
        for statistic in ("Avg", "Max", "Min", "Std")
    ),
    *(
        f"{recent}DC{what}"
        for recent in ("", "Recent")
        for what in ("SelectWaittime", "SignalRuntime", "TimerRuntime", "SocketRuntime",
                     "PipeRuntime")
    ),
]  # fmt: skip

_LOADS: Final = ["LoadAvg", "CondorLoadAvg", "TotalLoadAvg", "TotalCondorLoadAvg"]

_TIMES: Final = _words("""
EnteredCurrentActivity EnteredCurrentState MyCurrentTime LastHeardFrom LastUpdate MonitorSelfTime
UpdateSequenceNumber UpdatesSequenced UpdatesTotal ExpectedMachineGracefulDrainingCompletion
ExpectedMachineQuickDrainingCompletion ClockMin ConsoleIdle KeyboardIdle Disk VirtualMemory
MonitorSelfAge MonitorSelfImageSize MonitorSelfResidentSetSize MonitorSelfRegisteredSocketCount
MonitorSelfSecuritySessions ImageSizePeak ScratchFree LastTimeHeldClaim
""")

_CLAIMED: Final = _words("""
AccountingGroup ClientMachine GlobalJobId JobId JobStart RemoteOwner RemoteUser RemoteScheddName
RemoteGroup RemoteNegotiatingGroup RemoteAutoregroup RemoteGroupResourcesInUse RemoteGroupQuota
RemoteUserPrio RemoteUserResourcesInUse ImageSize ResidentSetSize ProportionalSetSizeKb
PublicClaimId PreemptingOwner JobUniverse ConcurrencyLimits BytesSent BytesRecvd FileReadBytes
FileWriteBytes CPUsUsage MemoryUsage DiskUsage WorkingDirectory JobUser
""")

_CHILDREN: Final = _words("""
ChildAccountingGroup ChildActivity ChildCpus ChildCurrentRank ChildDisk ChildEnteredCurrentState
ChildGPUs ChildMemory ChildName ChildRemoteOwner ChildRemoteUser ChildRetirementTimeRemaining
ChildState ChildDSlotId ChildJobStarts ChildLoadAvg
""")

_GPU: Final = _words("""
GPUs AssignedGPUs AvailableGPUs CUDACapability CUDADriverVersion CUDARuntimeVersion
CUDAMaxSupportedVersion CUDAECCEnabled DeviceGPUsAverageUsage DeviceGPUsMemoryPeakUsage
UptimeGPUsSeconds GPUs_Capability GPUs_DeviceName GPUs_GlobalMemoryMb GPUs_GPU_3a1b52c9
GPUs_GPU_77e0d1f4 OfflineGPUs TotalSlotGPUsMemoryMb
""")

_CONTAINER: Final = _words("""
DockerOfflineReason ContainerImageCache SingularityUserNamespaces ContainerCacheHits
ContainerCacheMisses
""")

# What STARTD_SLOT_ATTRS publishes of the other slots.
_OTHER_SLOTS: Final = [
    f"slot{slot}_{what}"
    for slot in range(1, 9)
    for what in ("State", "Activity", "EnteredCurrentActivity", "TotalTimeClaimedBusy", "JobStarts",
                 "RemoteOwner", "Cpus", "Memory")
]  # fmt: skip

_ALWAYS: Final = _words("""
Name SlotID SlotType SlotTypeID State Activity Cpus Memory Disk Machine MyAddress MyType Start
Requirements Rank Arch OpSys LoadAvg CondorVersion PartitionableSlot DynamicSlot CondorPlatform
""")

_SERIES: Final = [
    "UpdatesHistory", "JobBusyTimeSizes",
    *(
        f"{recent}{what}Histogram"
        for recent in ("", "Recent")
        for what in ("JobBusyTime", "JobDuration", "JobSize", "TransferTime", "DCSelect", "DCFsync")
    ),
]  # fmt: skip

_PLAIN: Final = [
    *_FLAGS, *_POLICIES, *_POOL_TEXTS, *_HOST_NUMBERS, *_HOST_NAMES, *_COUNTERS, *_DAEMON_CORE,
    *_REALS, *_LOADS, *_TIMES, *_OTHER_SLOTS, *_ALWAYS, *_SERIES,
]  # fmt: skip

NAMES: Final = tuple(
    sorted({*_PLAIN, *_CLAIMED, *_CHILDREN, *_GPU, *_CONTAINER}, key=lambda name: name.lower())
)
"""Every name that a slot of some version may have."""

# --- values --------------------------------------------------------------------------------------

_VERSIONS: Final = (
    ("8.9.13 Mar 30 2021 BuildID: 534399", "CentOS7"),
    ("9.0.20 Jul 31 2023 BuildID: 661320", "CentOS7"),
    ("10.9.0 2023-09-28 BuildID: 678199", "AlmaLinux8"),
    ("23.0.12 2024-06-13 BuildID: 739862", "AlmaLinux9"),
    ("24.0.1 2024-10-31 BuildID: 765651", "AlmaLinux9"),
)
_NOW: Final = 1_763_740_000
_USERS: Final = ("ada", "grace", "edsger", "barbara", "tony", "leslie", "frances", "alan")


def quoted(text: str) -> str:
    """A string in the new syntax; `text` has its quotes and backslashes escaped already."""
    return f'"{text}"'


def _real(chance: random.Random) -> str:
    """A real number as HTCondor prints it: fifteen digits, or an exponent."""
    number = chance.random()
    if number < 0.1:
        return f"{number * 1e-4:.15E}"
    return f"{number * 10 ** chance.randrange(5):.15g}" if number < 0.9 else "0.0"


def _number(chance: random.Random, most: int = 10**6) -> str:
    return str(int(chance.random() * most))


@attrs.frozen(slots=True)
class _Pool:
    """A pool of several versions: the constants of each."""

    constants: tuple[Ad, ...]
    missing: tuple[frozenset[str], ...]
    """Which names a version does not know."""

    @classmethod
    def drawn(cls, chance: random.Random) -> _Pool:
        constants, missing = [], []
        for version, platform in _VERSIONS:
            ad: Ad = {name: str(chance.random() < 0.7).lower() for name in _FLAGS}
            ad |= {name: chance.choice(texts) for name, texts in _POLICIES.items()}
            ad |= {name: quoted(chance.choice(texts)) for name, texts in _POOL_TEXTS.items()}
            ad["CondorVersion"] = quoted(f"$CondorVersion: {version} PackageID: 1 $")
            ad["CondorPlatform"] = quoted(f"$CondorPlatform: x86_64_{platform} $")
            constants.append(ad)
            missing.append(frozenset(chance.sample(NAMES, 15)).difference(_ALWAYS))
        return cls(tuple(constants), tuple(missing))


def _host(pool: _Pool, version: int, number: int, chance: random.Random) -> Ad:
    """What all slots of a host have in common."""
    fields = {
        "host": f"wn{number:06}.cluster.example.org",
        "ip": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        "sock": f"{chance.randrange(10**6)}_{chance.randrange(16**4):04x}",
        "mac": f"{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}",
        "number": f"{number}",
        "kind": f"{number % 5}",
    }
    ad = dict(pool.constants[version])
    for name in _HOST_NUMBERS:
        new = chance.random() < 0.6
        ad[name] = _number(chance, 10**9) if new else chance.choice(("0", "1", "64", "3600"))
    for name, form in _HOST_NAMES.items():
        ad[name] = quoted(form.format_map(fields))
    ad["Name"] = fields["host"]
    return ad


def _counter(chance: random.Random) -> str:
    return "0" if chance.random() < 0.6 else _number(chance)


def _mostly_real(chance: random.Random) -> str:
    return "0.0" if chance.random() < 0.3 else _real(chance)


def _time(chance: random.Random) -> str:
    return str(_NOW - int(chance.random() * 10**6))


def _load(chance: random.Random) -> str:
    return "0.0" if chance.random() < 0.2 else f"{chance.random() * 8:.2f}"


def _user(chance: random.Random) -> str:
    return quoted(f"{chance.choice(_USERS)}@example.org")


def _other_slot(name: str) -> Callable[[random.Random], str]:
    if name.endswith("State"):
        return lambda chance: chance.choice(('"Claimed"', '"Unclaimed"', '"Owner"'))
    if name.endswith("_Activity"):
        return lambda chance: chance.choice(('"Busy"', '"Idle"', '"Retiring"'))
    if name.endswith("Owner"):
        return _user
    if name.endswith(("Cpus", "Starts")):
        return partial(_number, most=64)
    return _time if name.endswith("CurrentActivity") else partial(_number, most=10**7)


def _claimed(name: str) -> Callable[[random.Random], str]:
    if name in {"RemoteOwner", "RemoteUser", "JobUser", "PreemptingOwner"}:
        return _user
    if name in {"ConcurrencyLimits", "AccountingGroup", "RemoteGroup", "RemoteNegotiatingGroup"}:
        return lambda chance: quoted(f"group_{chance.choice(_USERS)}.{chance.randrange(40)}")
    if name in {"GlobalJobId", "JobId", "PublicClaimId", "WorkingDirectory"}:
        return lambda chance: quoted(
            f"ce{chance.randrange(9)}.example.org#{chance.randrange(10**7)}.0#{_time(chance)}"
        )
    if name in {"ClientMachine", "RemoteScheddName"}:
        return lambda chance: quoted(f"ce{chance.randrange(9):02}.example.org")
    if name == "RemoteAutoregroup":
        return lambda chance: "false"
    return _mostly_real if name.endswith(("Usage", "Prio", "Quota")) else _counter


def _gpu(name: str) -> Callable[[random.Random], Value]:
    if name.startswith("GPUs_GPU"):
        return lambda chance: {
            "Id": quoted(f"GPU-{chance.randrange(16**8):08x}"),
            "DeviceUuid": quoted(f"{chance.randrange(16**8):08x}-{chance.randrange(16**4):04x}"),
            "DeviceName": '"NVIDIA A100-PCIE-40GB"',
            "GlobalMemoryMb": "40536",
            "Capability": "8.0",
            "ECCEnabled": "true",
        }
    if name in {"AvailableGPUs", "OfflineGPUs"}:
        return lambda chance: ["GPUs_GPU_3a1b52c9", "GPUs_GPU_77e0d1f4"][: chance.randrange(3)]
    if name == "AssignedGPUs":
        return lambda chance: quoted(f"GPU-{chance.choice(('3a1b52c9', '77e0d1f4'))}")
    if name.endswith("Name"):
        return lambda chance: '"NVIDIA A100-PCIE-40GB"'
    if name.endswith("Enabled"):
        return lambda chance: "true"
    if name.endswith(("Usage", "Version", "Capability")):
        return lambda chance: f"{chance.choice((7.5, 8.0, 11.8, 12.2))}"
    return lambda chance: str(chance.randrange(3))


_NEW: Final[dict[str, Callable[[random.Random], Value]]] = {
    **dict.fromkeys([*_COUNTERS, *_DAEMON_CORE], _counter),
    **dict.fromkeys(_REALS, _mostly_real),
    **dict.fromkeys(_LOADS, _load),
    **dict.fromkeys(_TIMES, _time),
    **{name: _other_slot(name) for name in _OTHER_SLOTS},
    **{name: _claimed(name) for name in _CLAIMED},
    **{name: _gpu(name) for name in _GPU},
    **dict.fromkeys(_CONTAINER, _counter),
    "DockerOfflineReason": lambda chance: r'"daemon says \"not running\" (\\var\\run)"',
    "SingularityUserNamespaces": lambda chance: chance.choice(("true", "false", "undefined")),
    **dict.fromkeys(_SERIES, lambda chance: quoted(", ".join(_counter(chance) for _ in range(14)))),
    "UpdatesHistory": lambda chance: quoted(f"0x{chance.randrange(16**8):032x}"),
    "JobBusyTimeSizes": lambda chance: quoted(", ".join(["0"] * 9 + [_number(chance)])),
    # Errors of evaluation and what is not known are published as such.
    "GLIDEIN_DAEMON_SHUTDOWN": lambda chance: f"MyCurrentTime + {chance.randrange(10**5)} - 3600",
    "LastDrainStopTime": lambda chance: chance.choice(("undefined", _time(chance))),
}


def _child(name: str, count: int, host: str, chance: random.Random) -> Value:
    if name.endswith("Name"):
        return [quoted(f"slot1_{number}@{host}") for number in range(1, count + 1)]
    if name.endswith(("Owner", "User")):
        return [_user(chance) for _ in range(count)]
    if name.endswith("CurrentState"):
        return [_time(chance) for _ in range(count)]
    words = {"ChildState": '"Claimed"', "ChildActivity": '"Busy"', "ChildAccountingGroup": '"any"',
             "ChildCpus": "1", "ChildCurrentRank": "0.0", "ChildGPUs": "0"}  # fmt: skip
    return [words.get(name) or _number(chance) for _ in range(count)]


def _without(chance: random.Random) -> frozenset[str]:
    """What a host, a kind of slot and the daemon's history leave out of an ad."""
    return frozenset(chance.sample(NAMES, int(4 + 130 * chance.random() ** 8))).difference(_ALWAYS)


def _spared(names: list[str], number: int, chance: random.Random) -> frozenset[str]:
    """So many names, to leave no more than an ad has."""
    may_go = [name for name in names if name not in _ALWAYS]
    return frozenset(chance.sample(may_go, max(number, 1)))


def slots(count: int, seed: int = 1) -> Iterator[Ad]:
    """The slots of a pool: static ones, partitionable ones, and the parts that these gave away."""
    chance = random.Random(seed)
    pool = _Pool.drawn(chance)
    hosts = (_slots_of_host(pool, seed * 1_000_003 + n, chance) for n in range(count))
    return islice((ad for host in hosts for ad in host), count)


def _slots_of_host(pool: _Pool, number: int, chance: random.Random) -> Iterator[Ad]:
    version = chance.randrange(len(_VERSIONS))
    host = _host(pool, version, number % 2**24, chance)
    count, static = chance.randrange(1, 9), chance.random() < 0.3
    unknown = pool.missing[version]
    if chance.random() < 0.85:
        unknown |= frozenset(_GPU)
    if chance.random() < 0.6:
        unknown |= frozenset(_CONTAINER)
    # Most hosts publish some attributes of their other slots only, if any.
    unknown |= frozenset(chance.sample(_OTHER_SLOTS, chance.choice((0, 0, 24, 48))))
    left_out, spared = _without(chance), frozenset[str]()
    for slot in range(count):
        if slot and chance.random() < 0.8:
            left_out, spared = _without(chance), frozenset()
        dynamic = not static and slot > 0
        claimed = dynamic or (static and chance.random() < 0.7)
        out = unknown | left_out
        if not claimed:
            out |= frozenset(_CLAIMED)
        if static or dynamic:
            out |= frozenset(_CHILDREN)
        names = [name for name in NAMES if name not in out]
        if not spared or len(spared.intersection(names)) < len(names) - 500:
            spared = _spared(names, len(names) - chance.randrange(446, 501), chance)
        names = [name for name in names if name not in spared]
        if version < 2:
            chance.shuffle(names)
        yield _slot(names, host, slot, count, static=static, claimed=claimed, chance=chance)


def _slot(
    names: list[str], host: Ad, slot: int, count: int, *, static: bool, claimed: bool,
    chance: random.Random,
) -> Ad:  # fmt: skip
    at = host["Name"]
    assert isinstance(at, str)
    cpus = chance.choice((1, 1, 2, 4, 8))
    own: Ad = {
        "Name": quoted(f"slot{slot + 1}@{at}" if static or not slot else f"slot1_{slot}@{at}"),
        "SlotID": str(slot + 1 if static else 1),
        "SlotType": '"Static"' if static else '"Dynamic"' if slot else '"Partitionable"',
        "SlotTypeID": "0" if static else "-1" if slot else "1",
        "State": '"Claimed"' if claimed else '"Unclaimed"',
        "Activity": '"Busy"' if claimed else '"Idle"',
        "PartitionableSlot": str(not static and slot == 0).lower(),
        "DynamicSlot": str(not static and slot > 0).lower(),
        "Cpus": str(cpus),
        "Memory": str(cpus * chance.choice((2000, 2048, 4000))),
    }
    if not static and not slot:
        own |= {name: _child(name, count - 1, at, chance) for name in _CHILDREN}
    ad: Ad = {}
    for name in names:
        new = _NEW.get(name)
        if name in own:
            ad[name] = own[name]
        else:
            ad[name] = host[name] if new is None else new(chance)
    return ad


# --- jobs ----------------------------------------------------------------------------------------

_JOB_COUNTERS: Final = _words("""
AutoClusterId BlockReadKbytes BlockReads BlockWriteKbytes BlockWrites BufferBlockSize BufferSize
BytesRecvd BytesSent CommittedSlotTime CommittedSuspensionTime CommittedTime CompletionDate CoreSize
CpusProvisioned CumulativeRemoteSysCpu CumulativeRemoteUserCpu CumulativeSlotTime
CumulativeSuspensionTime CurrentHosts CurrentStatusUnknown CurrentTransferQueueDepth DiskProvisioned
DiskUsage_RAW EnteredCurrentStatus ExecutableSize ExecutableSize_RAW ExitCode ExitStatus
GPUsProvisioned HoldReasonCode HoldReasonSubCode ImageSize ImageSize_RAW InitialWaitDuration
JobBatchId JobCurrentFinishTransferInputDate JobCurrentFinishTransferOutputDate JobCurrentStartDate
JobCurrentStartExecutingDate JobCurrentStartTransferInputDate JobCurrentStartTransferOutputDate
JobFinishedHookDone JobLastStartDate JobLeaseDuration JobMaxVacateTime JobNotification JobPrio
JobRunCount JobStartDate JobStatus JobUniverse LastHoldReasonCode LastHoldReasonSubCode
LastJobLeaseRenewal LastJobStatus LastMatchTime LastRejMatchTime LastSuspensionTime LastVacateTime
LocalSysCpu LocalUserCpu MachineAttrCpus0 MachineAttrSlotWeight0 MaxHosts MemoryProvisioned MinHosts
NumCkpts NumCkpts_RAW NumHolds NumJobCompletions NumJobMatches NumJobReconnects NumJobStarts
NumRestarts NumShadowExceptions NumShadowStarts NumSystemHolds NumVacates OrigMaxHosts
PeakForkWorkers PostJobPrio1 PostJobPrio2 PreJobPrio1 PreJobPrio2 ProcId ProportionalSetSizeKb QDate
RemoteSlotID RequestCpus RequestGPUs ResidentSetSize ResidentSetSize_RAW RecentBlockReadKbytes
RecentBlockReads RecentBlockWriteKbytes RecentBlockWrites RecentStatsLifetimeStarter
ScratchDirFileCount ShadowBday SpooledOutputFiles StageInFinish StageInStart StageOutFinish
StageOutStart StatsLifetimeStarter StatsLastUpdateTimeStarter TotalSubmitProcs TotalSuspensions
TransferInFinished TransferInQueued TransferInStarted TransferInputSizeMB TransferOutFinished
TransferOutQueued TransferOutStarted WallClockCheckpoint VacateReasonCode VacateReasonSubCode
ActivationDuration ActivationExecutionDuration ActivationSetupDuration ActivationTeardownDuration
CommittedRuns CondorExitCode
""")

_JOB_FLAGS: Final = _words("""
EncryptExecuteDirectory ExitBySignal GetEnv LeaveJobInQueue NiceUser OnExitHold OnExitRemove
PeriodicHold PeriodicRelease PeriodicRemove StreamErr StreamIn StreamOut TerminationPending
TransferErr TransferIn TransferOut UseParrot WantCheckpoint WantClaiming WantIOProxy
WantParallelScheduling WantRemoteIO WantRemoteSyscalls WantResAd WantGracefulRemoval
WantTransferPluginMethods SpoolOnEvict ShouldKillOnExit HasContainerImage WantContainer WantDocker
PreserveRelativePaths SuccessCheckpoint TransferQueued TransferringInput TransferringOutput
""")

_JOB_TEXTS: Final[dict[str, str]] = {
    "AccountingGroup": "group_{user}.prod",
    "AcctGroup": "group_{user}",
    "AcctGroupUser": "{user}",
    "Args": r"--config \"{run}.cfg\" --events {number} --out C:\\data\\{run}",
    "Cmd": "/home/{user}/runs/{run}/simulate.sh",
    "CondorPlatform": "$CondorPlatform: x86_64_AlmaLinux9 $",
    "CondorVersion": "$CondorVersion: 23.0.12 2024-06-13 BuildID: 739862 $",
    "ContainerImage": "/cvmfs/singularity.example.org/htc/el9:{kind}",
    "DAGManNodesLog": "{number}",
    "DAGNodeName": "node_{run}",
    "DAGParentNodeNames": "node_{number},setup_{number}",
    "Err": "logs/{run}.err",
    "FileSystemDomain": "example.org",
    "GlobalJobId": "ce{kind}.example.org#{id}.0#17637{kind}{kind}000",
    "HoldReason": r"Error from slot1@{host}: \"No such file\" (errno 2)",
    "In": "/dev/null",
    "Iwd": "/home/{user}/runs/{run}",
    "JobBatchName": "production-{kind}",
    "JobDescription": "{run} of {user}",
    "JobSubmitFile": "condor_submit",
    "LastHoldReason": r"The job attribute PeriodicHold expression 'true' evaluated to TRUE",
    "LastPublicClaimId": "<10.1.{kind}.7:9618?alias={host}>#1763{number}#{kind}#...",
    "LastRejMatchReason": "no match found",
    "SubmitEventNotes": "DAG Node: node_{run} of campaign {kind}, submitted by {user} for {host}",
    "DockerNetworkType": "nat",
    "JobAdInformationAttrs": "Cluster{kind},MATCH_EXP_JOBGLIDEIN_Site,JOB_Site,{run}",
    "MATCH_EXP_JOBGLIDEIN_Entry_Name": "Example_T2_Bologna_ce0{kind}",
    "MATCH_EXP_JOBGLIDEIN_Gatekeeper": "ce0{kind}.example.org ce0{kind}.example.org:9619",
    "MATCH_EXP_JOBGLIDEIN_SEs": "se01.example.org,se0{kind}.example.org",
    "DESIRED_Sites": "Bologna,Padova,Site{kind},T2_XX_Bologna,T2_XX_Padova,T2_XX_Lyon",
    "WMAgent_RequestName": "{user}_production_{run}_{number}",
    "CMS_JobInputDatasets": "/Example{kind}/{run}/AOD,/Example{kind}/{run}/MINIAOD",
    "LastRemoteHost": "slot1_{kind}@{host}",
    "LastRemotePool": "pool.example.org",
    "LastRejectedBy": "none",
    "MachineAttrGLIDEIN_Site0": "Site{kind}",
    "MyType": "Job",
    "NotifyUser": "{user}@example.org",
    "Out": "logs/{run}.out",
    "OutputDestination": "https://se01.example.org:2880/store/{user}/{run}",
    "Owner": "{user}",
    "OsUser": "{user}",
    "ProjectName": "example.{kind}",
    "RemoteHost": "{host}",
    "RootDir": "/",
    "ShouldTransferFiles": "YES",
    "StarterIpAddr": "<10.1.{kind}.7:9618?addrs=10.1.{kind}.7-9618&alias={host}&sock=slot1_{kind}>",
    "StartdIpAddr": "<10.1.{kind}.7:9618?addrs=10.1.{kind}.7-9618&alias={host}&sock=startd_1_2>",
    "StartdPrincipal": "execute-side@matchsession/10.1.{kind}.7",
    "SubmitterGlobalJobId": "{run}#{number}",
    "TargetType": "Machine",
    "TransferExecutableAs": "yes",
    "TransferInput": "/home/{user}/{run}/a.dat,/home/{user}/{run}/b.dat,steer-{number}.xml",
    "TransferOutput": "hist-{number}.root",
    "TransferOutputRemaps": "hist-{number}.root=/data/{user}/{run}.root",
    "User": "{user}@example.org",
    "UserLog": "/home/{user}/runs/{run}/job.log",
    "VacateReason": "Preempted by the negotiator",
    "WhenToTransferOutput": "ON_EXIT",
    "x509UserProxySubject": "/DC=org/DC=example/OU=People/CN={user} {kind}",
    "x509UserProxyVOName": "example",
    "x509UserProxyFQAN": "/DC=org/CN={user},/example/Role=NULL/Capability=NULL",
    "x509userproxy": "/run/x509up_u{number}",
}

_JOB_REALS: Final = _words("""
BlockReadBytes BlockWriteBytes CPUsUsage CumulativeRemoteWallClock JobCpuEfficiency LocalWallClock
RemoteSysCpu RemoteUserCpu RemoteWallClockTime RankOfMatch LastRemoteSysCpu LastRemoteUserCpu
GPUsAverageUsage NetworkInMb NetworkOutMb TransferInputMb TransferOutputMb MemoryUsageAverage
""")

_JOB_EXPRESSIONS: Final[dict[str, tuple[str, ...]]] = {
    "Rank": ("0.0", "TARGET.Mips + {number}", "Mips"),
    "MemoryUsage": ("((ResidentSetSize + 1023) / 1024)",),
    "RequestMemory": ("2048", "{number}", "ifthenelse(MemoryUsage =!= undefined,MemoryUsage,1)"),
    "RequestDisk": ("DiskUsage", "{number}"),
    "DiskUsage": ("{number}",),
    "JobLeaseDurationRule": ("2400 + {kind}",),
    "PeriodicHoldRule": ("(NumJobStarts >= {kind}) && (JobStatus == 1)", "false"),
    "PeriodicRemoveRule": ("(JobStatus == 5) && ((time() - EnteredCurrentStatus) > {number})",),
    "PeriodicReleaseRule": ("(HoldReasonCode =!= 1) && (NumHolds < {kind})",),
    "OnExitRemoveRule": ("(ExitBySignal == false) && (ExitCode == 0 || NumJobStarts >= {kind})",),
    "CondorCE": ("1",),
    "LastCheckpointPlatform": ("undefined",),
    "EstimatedWallTimeMins": ("{number}", "ifThenElse(RequestCpus > 4, 1440, {kind} * 60)"),
    "MaxWallTimeMins": ("{number}",),
}  # fmt: skip

_JOB_REQUIREMENTS: Final = (
    '(TARGET.Arch == "X86_64")',
    '(TARGET.OpSys == "LINUX")',
    "(TARGET.Disk >= RequestDisk)",
    "(TARGET.Memory >= RequestMemory)",
    "(TARGET.Cpus >= RequestCpus)",
    "((TARGET.HasFileTransfer) || (TARGET.FileSystemDomain == MY.FileSystemDomain))",
    '(TARGET.Machine =!= "wn{number}.example.org")',
    "(HAS_CVMFS_oasis_opensciencegrid_org =?= true)",
    '(stringListMember(TARGET.GLIDEIN_Site, "Bologna,Padova,Site{kind}"))',
    "(TARGET.GLIDEIN_ToRetire =?= undefined || TARGET.GLIDEIN_ToRetire > time() + {number})",
    '(!regexp("^wn0*{kind}[0-9]+", TARGET.Machine))',
    "(isUndefined(TARGET.GPUs) || TARGET.GPUs >= (RequestGPUs ?: 0))",
    "(TARGET.KFlops * 1.5 > {number} || TARGET.Mips >= 20{kind}00)",
)  # fmt: skip

_ENVIRONMENT: Final = _words("""
HOME PATH LD_LIBRARY_PATH PYTHONPATH X509_USER_PROXY OMP_NUM_THREADS RUN_NUMBER SITE_NAME TMPDIR
EVENTS SEED OUTPUT_DIR GEOMETRY CONDITIONS_TAG ROOTSYS MODULEPATH MANPATH INFOPATH CLASSPATH
ACLOCAL_PATH FRONTIER_SERVER XRD_PLUGINCONFDIR CONDOR_ID BATCH_SYSTEM DATASET CAMPAIGN CMSSW_BASE
SCRAM_ARCH LANG LOGNAME SHELL
""")

_JOB_NAMES: Final = sorted(
    {
        *_JOB_COUNTERS, *_JOB_FLAGS, *_JOB_TEXTS, *_JOB_REALS, *_JOB_EXPRESSIONS, "ClusterId",
        "Requirements", "Environment", "ToE", "TransferInputStats", "TransferOutputStats",
        "JobMaterializeItems",
    },
    key=str.lower,
)  # fmt: skip
_JOB_ALWAYS: Final = frozenset(
    ("ClusterId", "ProcId", "GlobalJobId", "MyType", "Owner", "Requirements")
)


def jobs(count: int, seed: int = 1) -> Iterator[Ad]:
    """The history of jobs, each with names, requirements, environment and counters of its own."""
    chance = random.Random(seed)
    return (_job(seed * 1_000_003 + number, chance) for number in range(count))


def _job(number: int, chance: random.Random) -> Ad:
    most = 10**6
    fields = {
        "user": chance.choice(_USERS),
        "run": f"run{chance.randrange(most)}",
        "host": f"wn{chance.randrange(most):06}.example.org",
        "kind": str(chance.randrange(2, 9)),
        "number": str(chance.randrange(most)),
        "id": str(number),
    }
    left_out = frozenset(chance.sample(_JOB_NAMES, chance.randrange(14, 90))) - _JOB_ALWAYS
    names = [name for name in _JOB_NAMES if name not in left_out]
    if chance.random() < 0.4:
        chance.shuffle(names)
    return {name: _of_job(name, number, fields, chance) for name in names}


def _of_job(name: str, number: int, fields: dict[str, str], chance: random.Random) -> Value:
    if name in _JOB_TEXTS:
        return quoted(_JOB_TEXTS[name].format_map(fields))
    if name in _JOB_EXPRESSIONS:
        return chance.choice(_JOB_EXPRESSIONS[name]).format_map(fields)
    if name in _FLAGS_OF_JOBS:
        return "true" if chance.random() < 0.3 else "false"
    if name in _REALS_OF_JOBS:
        return _mostly_real(chance)
    if name == "ClusterId":
        return str(number)
    if name == "Requirements":
        chosen = frozenset(chance.sample(_JOB_REQUIREMENTS, chance.randrange(4, 9)))
        clauses = (clause for clause in _JOB_REQUIREMENTS if clause in chosen)
        return " && ".join(clauses).format_map(fields)
    if name == "Environment":
        set_here = chance.sample(_ENVIRONMENT, chance.randrange(12, len(_ENVIRONMENT)))
        return quoted(" ".join(f"{key}={_setting(key, fields)}" for key in set_here))
    if name == "ToE":
        when = _time(chance)
        return {"Who": '"itself"', "How": '"OF_ITS_OWN_ACCORD"', "HowCode": "0", "When": when,
                "ExitBySignal": "false", "ExitCode": _number(chance, 3)}  # fmt: skip
    if name == "JobMaterializeItems":
        return [quoted(f"{fields['run']}-{item}.root") for item in range(chance.randrange(5))]
    if name.endswith("Stats"):
        return {"CedarFilesCountTotal": _number(chance, 9), "CedarSizeBytesTotal": _number(chance)}
    value = chance.random()
    if value < 0.45:
        return "0"
    if value < 0.6:
        return str(int(value * 20))
    return _time(chance) if value < 0.8 else _number(chance, 10**7)


_FLAGS_OF_JOBS: Final = frozenset(_JOB_FLAGS)
_REALS_OF_JOBS: Final = frozenset(_JOB_REALS)


def _setting(key: str, fields: dict[str, str]) -> str:
    if key in {
        "PATH",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "MODULEPATH",
        "MANPATH",
        "INFOPATH",
        "CLASSPATH",
        "ACLOCAL_PATH",
    }:
        place, run = f"/home/{fields['user']}/{fields['run']}", fields["number"]
        return f"{place}/bin:/opt/site{fields['kind']}/bin:/usr/bin:/cvmfs/el9/{run}/lib64"
    if key in {"SITE_NAME", "CONDITIONS_TAG"}:
        return f"'site {fields['kind']} \\\"{fields['number']}\\\"'"
    return f"/scratch/{fields['user']}/{fields['number']}/{fields['run']}/{key.lower()}"


# --- daemons -------------------------------------------------------------------------------------

_KINDS: Final = ("Schedd", "Collector", "Negotiator", "Master")
_STATISTICS: Final = [
    f"{recent}{what}{event}"
    for recent in ("", "Recent")
    for what in ("Jobs", "Shadows", "Updates", "Transfers", "Claims", "Queries", "Matches")
    for event in ("Started", "Completed", "Exited", "Lost", "Killed", "Held", "Accumulated",
                  "Total", "Sizes", "RunTimes", "BadputTime")
]  # fmt: skip
_CYCLES: Final = [
    f"LastNegotiationCycle{what}{number}"
    for number in range(3)
    for what in ("ActiveSubmitterCount", "CandidateSlots", "CpuTime", "Duration", "End", "Matches",
                 "MatchRate", "NumIdleJobs", "NumJobsConsidered", "Period", "Phase1Duration",
                 "Rejections", "SlotShareIter", "Start", "TotalSlots", "TrimmedSlots")
]  # fmt: skip
_DAEMON_NAMES: Final = sorted(
    {*_STATISTICS, *_CYCLES, *_DAEMON_CORE, *_REALS, *_COUNTERS[:20], *_TIMES[:12],
     *list(_HOST_NAMES)[:6], "CondorVersion", "CondorPlatform", "UpdatesHistory", "CurbMatchmaking",
     "MyType", "Name", "DaemonStartTime", "DetectedCpus", "DetectedMemory", "WantResAd"},
    key=str.lower,
)  # fmt: skip
_DAEMON_ALWAYS: Final = frozenset(("MyType", "Name", "Machine", "MyAddress", "CondorVersion"))


def daemons(count: int, seed: int = 1) -> Iterator[Ad]:
    """Ads of schedds, collectors, negotiators and masters, mostly of counters."""
    chance = random.Random(seed)
    pool = _Pool.drawn(chance)
    return (_daemon(pool, seed * 1_000_003 + number, chance) for number in range(count))


def _daemon(pool: _Pool, number: int, chance: random.Random) -> Ad:
    version, kind = chance.randrange(len(_VERSIONS)), chance.choice(_KINDS)
    host = _host(pool, version, number % 2**24, chance)
    own: Ad = {"MyType": quoted(kind), "Name": quoted(f"{kind.lower()}@{host['Name']}"),
               "WantResAd": "true"}  # fmt: skip
    size = len(_DAEMON_NAMES)
    left_out = frozenset(chance.sample(_DAEMON_NAMES, chance.randrange(size // 8, size // 2)))
    names = [name for name in _DAEMON_NAMES if name not in left_out or name in _DAEMON_ALWAYS]
    if version < 2:
        chance.shuffle(names)
    ad: Ad = {}
    for name in names:
        if name in own:
            ad[name] = own[name]
        elif name in _NEW:
            ad[name] = _NEW[name](chance)
        elif name in host:
            ad[name] = host[name]
        elif name.endswith("Sizes"):
            ad[name] = quoted(", ".join([*["0"] * 11, _number(chance)]))
        else:
            ad[name] = _mostly_real(chance) if name.endswith("Rate") else _counter(chance)
    return ad


# --- texts of other kinds ------------------------------------------------------------------------


def descriptions(count: int, seed: int = 1) -> Iterator[str]:
    """Job descriptions of the gLite kind (JDL), each with another choice of attributes."""
    chance = random.Random(seed)
    return (_description(chance) for _ in range(count))


def _description(chance: random.Random) -> str:
    number, run = chance.randrange(10**6), f"run{chance.randrange(10**6)}"
    clauses = (
        f'Member("VO-example-{run}", other.GlueHostApplicationSoftwareRunTimeEnvironment)',
        f"other.GlueCEPolicyMaxCPUTime > {number}",
        f'!RegExp("{run}.*", other.GlueCEUniqueID)',
        '(other.GlueHostMainMemoryRAMSize >= 2048 || other.GlueCEStateStatus == "Production")',
        f"other.GlueCEInfoTotalCPUs >= {number % 64}",
        '!(other.GlueCEInfoLRMSType == "fork")',
    )  # fmt: skip
    optional = {
        "Type": '"Job"',
        "JobType": chance.choice(('"Normal"', '"MPICH"', '"Parametric"')),
        "Arguments": f'"--events {number} --tag \\"{run}\\""',
        "StdInput": f'"in.{number}"',
        "StdOutput": f'"out.{number}"',
        "StdError": f'"err.{number}"',
        "InputSandbox": f'{{ "{run}.sh", "gsiftp://se.example.org/data/{number}.dat", "a.xml" }}',
        "OutputSandbox": f'{{"out.{number}", "err.{number}",\n    "histograms.root"}}',
        "OutputSandboxBaseDestURI": f'"gsiftp://se.example.org/out/{run}"',
        "Environment": f'{{ "RUN={number}", "SITE=any" }}',
        "VirtualOrganisation": '"example"',
        "RetryCount": str(chance.randrange(5)),
        "ShallowRetryCount": str(chance.randrange(9)),
        "MyProxyServer": '"myproxy.example.org"',
        "PerusalFileEnable": "false",
        "CpuNumber": str(chance.randrange(1, 65)),
        "Rank": f"-other.GlueCEStateEstimatedResponseTime + (other.GlueCEStateFreeCPUs > {number} "
        "? 10 : 0)",
        "FuzzyRank": "true",
        "DataRequirements": f'{{ [ InputData = {{ "lfn:/grid/{run}" }}; Catalog = "DLI" ] }}',
        "DataAccessProtocol": '{ "gsiftp", "https" }',
        "OutputData": f'{{ [ OutputFile = "{run}.root"; StorageElement = "se.example.org" ] }}',
    }
    names = chance.sample(list(optional), chance.randrange(8, len(optional)))
    chosen = chance.sample(clauses, chance.randrange(2, len(clauses)))
    assigned = {"Executable": f'"{run}.sh"', "Requirements": "\n    && ".join(chosen)}
    assigned |= {name: optional[name] for name in names}
    sign = chance.choice((" = ", "=", "  = "))
    body = "\n".join(f"  {name}{sign}{value};" for name, value in assigned.items())
    comment = chance.choice(("", "// a grid job\n", "/* made by hand */\n"))
    return f"{comment}[\n{body}\n]"


_ATTRIBUTES: Final = ("Memory", "Cpus", "Disk", "KFlops", "Mips", "LoadAvg", "TotalGPUs", "JobPrio")


def expressions(count: int, seed: int = 1) -> Iterator[str]:
    """Requirements, ranks and policies: each has clauses and constants of its own."""
    chance = random.Random(seed)
    return (_expression(chance) for _ in range(count))


def _expression(chance: random.Random) -> str:
    clauses = chance.sample(_JOB_REQUIREMENTS, chance.randrange(2, 6))
    fields = {"number": str(chance.randrange(10**6)), "kind": str(chance.randrange(2, 9))}
    first, second = chance.sample(_ATTRIBUTES, 2)
    fields_text = f"(TARGET.{first} * {_number(chance)} > MY.{second} + {_real(chance)})"
    return f"{' && '.join(clauses).format_map(fields)} || {fields_text}"


def twenties(count: int, seed: int = 1) -> Iterator[str]:
    """Ads of twenty attributes in the new format, in any spelling; all that can be new is new."""
    chance = random.Random(seed)
    return (_twenty(chance) for _ in range(count))


def _twenty(chance: random.Random) -> str:
    sign, end = chance.choice((" = ", "=", "   =  ", " =")), chance.choice(("; ", ";", ";\n  "))
    kinds: tuple[Callable[[random.Random], str], ...] = (
        lambda it: _number(it, 10**9),
        _real,
        lambda it: quoted(f"text {it.randrange(10**9)}"),
        lambda it: quoted(f"slot1@wn{it.randrange(10**9)}.example.org"),
        _time,
        lambda it: f"TARGET.{it.choice(_ATTRIBUTES)} >= {it.randrange(10**9)}",
        lambda it: f"{{ {it.randrange(10**9)},{it.randrange(10**9)} }}",
        lambda it: it.choice(("true", "false", "undefined")),
    )
    names = chance.sample(NAMES, 20)
    # Three in four values are literals.
    values = (chance.choice(kinds[:5] if chance.random() < 0.7 else kinds)(chance) for _ in names)
    return (
        f"[ {end.join(f'{name}{sign}{value}' for name, value in zip(names, values, strict=True))} ]"
    )


# --- formats -------------------------------------------------------------------------------------


def _expression_of(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return f"{{ {','.join(value)} }}"
    return f"[ {'; '.join(f'{name} = {inner}' for name, inner in value.items())} ]"


def old(ad: Ad) -> str:
    """An ad in the old format, an assignment a line, where a backslash stands for itself."""
    text = "".join(
        f"{name} = {value if isinstance(value, str) else _expression_of(value)}\n"
        for name, value in ad.items()
    )
    return text.replace("\\\\", "\\")


def new(ad: Ad) -> str:
    """An ad in the new format on one line."""
    return f"[ {'; '.join(f'{name} = {_expression_of(value)}' for name, value in ad.items())} ]"


_NUMERAL: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(E[-+]\d+)?")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\["\\])*"')


def _in_json(value: Value) -> str:
    if isinstance(value, list):
        return f"[ {', '.join(map(_in_json, value))} ]"
    if isinstance(value, dict):
        inside = (f'"{name}": {_in_json(inner)}' for name, inner in value.items())
        return f"{{ {', '.join(inside)} }}"
    if value in {"true", "false"} or _NUMERAL.fullmatch(value) or _STRING.fullmatch(value):
        return value
    return "null" if value == "undefined" else json.dumps(f"/Expr({value})/").replace("/", r"\/")


def in_json(ad: Ad) -> str:
    """An ad in JSON as HTCondor's tools write it, an attribute a line."""
    lines = ",\n".join(f'  "{name}": {_in_json(value)}' for name, value in ad.items())
    return f"{{\n{lines}\n}}"


def stream(ads: Iterable[Ad], form: str = "old") -> Iterator[str]:
    """The pieces of a stream of ads in the format 'old', 'new' or 'json', an ad at least each."""
    if form == "old":
        yield from (f"{old(ad)}\n" for ad in ads)
    elif form == "new":
        yield from (f"{new(ad)}\n" for ad in ads)
    else:
        yield "[\n"
        for number, ad in enumerate(ads):
            yield f"{',' if number else ''}\n{in_json(ad)}"
        yield "\n]\n"


def _shape(what: str, ads: list[Ad]) -> str:
    """How many names, bytes and lists of names ads have, and how many lines occurred before."""
    texts = [old(ad) for ad in ads]
    lines = [line for text in texts for line in text.splitlines()]
    sizes = sorted(map(len, ads))
    return (
        f"{what}: {len(ads)} ads of {sizes[0]} to {sizes[-1]} attributes, "
        f"{len(lines) // len(ads)} on average, {sum(map(len, texts)) / len(ads) / 1000:.1f} kB; "
        f"{len({frozenset(ad) for ad in ads})} sets of names, {len({tuple(ad) for ad in ads})} "
        f"lists; {1 - len(set(lines)) / len(lines):.0%} of the lines occurred before"
    )


def main() -> None:
    """Prints what the ads look like."""
    print(
        f"{len(NAMES)} names of slots, {len(_JOB_NAMES)} of jobs, {len(_DAEMON_NAMES)} of daemons"
    )
    for what, made in (("slots", slots), ("jobs", jobs), ("daemons", daemons)):
        for seed, count in ((1, 205), (2, 205), (3, 2000)):
            print(_shape(what, list(made(count, seed))))


if __name__ == "__main__":
    main()
