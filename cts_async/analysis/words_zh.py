"""The words that the rules for Chinese questions know, by type."""

from __future__ import annotations

from typing import Final

from cts_async.analysis.lexicon import Lexicon

NOUNS: Final = Lexicon(
    {
        "time": """
            时间 时候 时间段 时间范围 时段 时期 年份 年度 月份 日期 星期 周期 季节 季度 学期 学年 年代
            朝代 世纪 赛季 节日 节假日 期限 点钟 小时 批次 有效期
        """,
        "region": """
            地区 地域 区域 城市 省份 区县 国家 国籍 地方 地点 地址 地段 位置 所在地 户籍 户口 商圈 街道
            乡镇 小区 省市 市县 城区 产地 目的地 出发地 考区 赛区 海域 流域
        """,
        "entity": """
            公司 企业 品牌 牌子 型号 机型 车型 车系 产品 商品 版本 手机 电脑 设备 人物 作者 导演 演员
            歌手 明星 主播 学校 大学 院校 高校 学院 专业 医院 银行 机构 单位 平台 软件 应用 app 游戏
            电影 电视剧 动漫 小说 教材 歌曲 作品 角色 项目 考试 证书 证件 药物 药名 药品 疾病 政策 法律
            法规 文件 条例 合同 赛事 比赛 球队 战队 选手 景点 景区 酒店 餐厅 门店 协议 部门 岗位 职位
            职业 课程 科目 学科 网站 系统 基金 股票 债券 保险 术语 概念 名字 名称 植物 动物 宠物 语言
            模型 航班 车次 线路 地铁 高速 机场 车站 奖项 活动 事件 物种 家族 组织 协会 银行卡 信用卡
        """,
        "scope": """
            方面 类型 种类 类别 范围 范畴 部分 内容 领域 行业 层次 学历 级别 等级 阶段 环节 步骤 用途
            目的 场景 场合 人群 对象 受众 群体 角度 维度 程度 规模 粒度 细节 版块 形式 方式 途径 渠道
            信息 问题 情况 需求 方向 身份 年级 年龄 年龄段 学段 基础 难度 水平 主题 话题 侧面 层面 题型
            格式 题材 原因 体质 性别 分类 服务 业务 功能 数据 资料 流程 攻略 知识
        """,
        "criterion": """
            标准 指标 依据 定义 口径 预算 价位 价格 价格区间 价格范围 费用 金额 性价比 口碑 偏好 口味
            风格 尺寸 尺码 大小 配置 阈值 因素 优先级 排名方式 排序 评分 性能 质量 风险 颜色 材质 面积
            收入 分数 分数段 成绩 门槛 比例 强度 特点
        """,
        "other": """
            年轻人 市场 周边产品 人工 地图 国家标准 国家队 日常 月经 天气 国标
        """,
    },
)
"""Nouns that a question word may be bound to."""

SHORT: Final = Lexicon(
    {
        "time": """
            年 月 日 天 周 届 点
        """,
        "region": """
            省 市 县 区 州 国
        """,
        "entity": """
            车 人 剧 书 歌 药 病 店
        """,
        "scope": """
            岁 用 事
        """,
        "criterion": """
            钱
        """,
    },
)
"""Nouns of one character: they count only directly behind the question word."""

WEAK: Final = Lexicon(
    {
        "scope": """
            范围 种 类 样
        """,
        "criterion": """
            要求 条件 限制 限定 原则 规则 高 大 远 特别
        """,
    },
)
"""Nouns that decide only where no other does: 时间范围 is a time, 什么范围 a scope."""

VALUES: Final = Lexicon(
    {
        "time": """
            今年 去年 明年 前年 近年 近几年 近期 最近 最新 当前 目前 现在 现行 历史 往年 以往 以前 过去
            历年 历届 未来 将来 实时 白天 晚上 夜间 早上 上午 下午 工作日 周末 节假日 寒假 暑假 上半年 下半年 短期
            长期 春季 夏季 秋季 冬季 春天 夏天 秋天 冬天 淡季 旺季 古代 现代 当代 应届 往届 即将 全年
            单日 平日
        """,
        "region": """
            国内 国外 海外 境内 境外 全国 全世界 全球 世界 本地 外地 异地 当地 附近 省内 省外 本省 外省
            本市 市内 南方 北方 大陆 内地 港澳台 市区 郊区 东部 西部 沿海 内陆 家附近 其他国家 其他城市
            其他地区 农村 乡村 城镇 老家 一线城市 二线城市 某地 各省 各地
        """,
        "criterion": """
            高端 低端 平价 便宜 入门级 经济型 性价比 高性价比 实惠
        """,
    },
)
"""What a question may offer as an answer."""

MENTIONS: Final = Lexicon(
    {
        "region": """
            地区 地域 区域 城市 省份 国家 地方 地点 地址 位置 所在地 哪里 哪儿 何处 何地 哪省 哪市 哪国
            哪个省 哪个市 哪个区 哪个县 国内 国外 海外 境外 全国 全球 本地 外地 异地 当地 附近 省内 省外
            本市
        """,
        "other": """
            国家标准 国家队 城市规划 地方政府 地方债 国家公务员 国家电网 城市建设 区域链 地方戏
        """,
    },
)
"""Words for places, wherever they stand."""

AREAS: Final = "美洲 长三角 珠三角 京津冀 大湾区 东北 华北 华东 华南 华中 西南 西北"
"""Names of places that a question may offer, beside those of the gazetteer."""

INSTITUTIONS: Final = (
    "银行|大学|学院|师范|理工|农业|移动|电信|联通|石油|石化|人寿|平安|医院|日报|队|菜|烤鸭|火锅|话|人|语|股市"
)
"""Behind the name of a place these make the name of something else: 中国银行, 北京烤鸭."""
